"""`python -m benchmarks ablation` from the command line to its files, on a tiny model."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from question_files import write_questions
from tiny_heads import TinyHead, save_head
from tiny_models import save_tiny
from tiny_models import tiny_model as make_tiny

Words = list[str | Path]


def ablation(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A process of its own: thread settings must be in place before torch is loaded."""
    command = [sys.executable, "-m", "benchmarks", "ablation", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def target(tiny_model: Path, tmp_path: Path) -> Path:
    """As `tiny_model`, but deep enough for three features."""
    size = json.loads((tiny_model / "config.json").read_text())["vocab_size"]
    deep = make_tiny(num_hidden_layers=5, vocab_size=size, max_position_embeddings=2048)
    folder = save_tiny(tmp_path / "target", deep)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_model / name, folder / name)
    return folder


@pytest.fixture
def words(target: Path, tmp_path: Path) -> Words:
    """Everything that the command needs, small."""
    rng = np.random.default_rng(0)
    texts = [{"token_ids": rng.integers(4, 90, 24).tolist(), "prompt_len": 4} for _ in range(24)]
    data = tmp_path / "text.jsonl"
    data.write_text("".join(json.dumps(text) + "\n" for text in texts))
    write_questions(tmp_path / "questions", "alpaca", [["one two one two"], ["say two one"]])
    size = json.loads((target / "config.json").read_text())["vocab_size"]
    head = save_head(TinyHead(vocab_size=size), tmp_path / "head", "specforge")
    return [
        *("--questions", tmp_path / "questions", "--tasks", "alpaca", "--max-tokens", "24"),
        *("--model", target, "--head", head, "--data", data, "--dtype", "float32", "--threads", "1"),
        *("--layers", "2", "3", "4", "--held-out", "0.3", "--train-tokens", "120", "--doublings", "1"),
        *("--draft-steps", "2", "--batch-tokens", "80", "--draft-vocab-size", "64", "--beam", "2"),
        *("--num-speculative-tokens", "5", "--depth", "3", "--work", tmp_path / "work"),
    ]


def rows_of(path: Path) -> list[dict[str, Any]]:
    report = json.loads(path.read_text())
    assert report.keys() >= {"command", "commit", "machine", "settings", "rows"}
    rows: list[dict[str, Any]] = report["rows"]
    return rows


def test_trees_are_compared_and_results_are_of_one_setting(words: Words, tmp_path: Path) -> None:
    out = tmp_path / "results"
    done = ablation(*words, "--out", out, "--part", "tree")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("This takes about ")
    rows = rows_of(out / "tree.json")
    assert [row["method"] for row in rows] == ["full", "no rerank", "confidence only", "neither"]
    for row in rows:
        assert row["identical"] == 1.0
        assert (row["m"], len(row["per_question"])) == (6, 2)
        assert row["draft_tokens"] > 5 * row["verifications"]  # all of m but at the end of an answer
    assert rows[0]["vs_full_interval"] == [0, 0]

    other = ablation(*words, "--out", out, "--part", "tree", "--max-tokens", "20")
    assert other.returncode == 1
    assert "was measured by other settings (max_tokens: 24, now 20); remove it" in other.stderr


@pytest.mark.slow
def test_every_part_and_going_on(words: Words, tmp_path: Path) -> None:
    out = tmp_path / "results"
    done = ablation(*words, "--out", out)
    assert done.returncode == 0, done.stderr
    assert {row["depth"] for row in rows_of(out / "calibration.json")} >= {None, 1}
    names = {path.stem.removeprefix("head-") for path in out.glob("head-*.json")}
    of_parts = {f"{method}-1of2{once}" for method in ("eagle1", "eagle3") for once in ("", "-once")}
    assert names == {"eagle1", "direct", "fused", "direct-ttt", "eagle3"} | of_parts
    for name in names:
        (row,) = rows_of(out / f"head-{name}.json")
        assert len(row["acceptance"]) == 6
        assert row["tau_interval"][0] <= row["tau"] <= row["tau_interval"][1]
    steps = {name: _steps(tmp_path / "work" / name) for name in names}
    assert steps["eagle1"] == steps["eagle3"] == 2 * steps["eagle3-1of2-once"]
    assert steps["eagle3-1of2"] == steps["eagle3"]

    before = {path: path.stat().st_mtime_ns for path in out.glob("*.json")}
    lost = out / "head-direct.json"
    lost.unlink()
    again = ablation(*words, "--out", out)  # measures that head again, and nothing else
    assert again.returncode == 0, again.stderr
    changed = {path for path, time in before.items() if path.stat().st_mtime_ns != time}
    assert changed == {lost}
    assert "direct, 2 of 9" in again.stdout


def _steps(run: Path) -> int:
    return len((run / "log.csv").read_text().splitlines()) - 1


def test_the_estimate_comes_without_the_work(run_here: Any, words: Words, tmp_path: Path) -> None:
    done = run_here("ablation", *words, "--out", tmp_path / "results", "--estimate")
    assert (done.status, done.out.splitlines()[1:]) == (0, [])
    assert "This takes about " in done.out
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "--questions is required"),
        (["--questions", "."], "give one of them"),
        (["--questions", ".", "--data", "a", "--features", "b"], "give one of them"),
        (["--questions", ".", "--part", "leaf"], "'leaf' is not a name known here"),
    ],
)
def test_wrong_values_name_their_flag(run_here: Any, arguments: list[str], complaint: str) -> None:
    done = run_here("ablation", *arguments)
    assert done.status == 2
    assert complaint in done.err.splitlines()[-1]
