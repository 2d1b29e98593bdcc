"""`python -m benchmarks calibration` on a tiny model: what was promised, what came true, and where it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_heads import TinyHead, save_head


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    lines = [json.dumps({"question_id": i, "category": "", "turns": [f"say {i}"]}) for i in range(8)]
    (tmp_path / "alpaca.jsonl").write_text("\n".join(lines))
    return ["--questions", str(tmp_path), "--tasks", "alpaca", "--max-tokens", "60"]


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "benchmarks", "calibration", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True)


def test_each_map_is_measured(tiny_model: Path, asked: list[str], tmp_path: Path) -> None:
    vocab_size = json.loads((tiny_model / "config.json").read_text())["vocab_size"]
    made = TinyHead(vocab_size=vocab_size, draft_vocab=vocab_size)
    head = save_head(made, tmp_path / "head", "specforge")
    result, figure = tmp_path / "calibration.json", tmp_path / "calibration.svg"
    drafting = [f"speculation.head={head}", "speculation.mode=fixed", "speculation.num_speculative_tokens=5"]
    settings = [*drafting, "speculation.min_path_value=0", "dtype=float32"]
    where = ["--json", result, "--figure", figure]
    done = command(*asked, "--model", tiny_model, "--set", *settings, *where)
    assert done.returncode == 0, done.stderr
    rows = json.loads(result.read_text())["rows"]
    whole = rows[0]
    assert (whole["method"], whole["mode"], whole["depth"]) == ("all", None, None)
    assert whole["ece_calibrated"] < whole["ece_raw"]
    assert {(row["method"], row["mode"]) for row in rows} >= {
        ("head or draft model", "greedy"),
        ("head or draft model", "sampled"),
        ("prompt lookup", "greedy"),
    }
    for row in rows:
        if row["mode"] is not None and row["depth"] is None:
            depths = [other for other in rows if other["depth"] and _map(other) == _map(row)]
            assert sum(depth["observations"] for depth in depths) == row["observations"]
            assert sum(each["weight"] for each in row["bins_raw"]) == row["observations"]
    assert done.stdout.splitlines()[3].split()[:2] == ["all", "all"]
    assert figure.stat().st_size > 1000


def _map(row: dict[str, object]) -> tuple[object, object]:
    return row["method"], row["mode"]


def test_without_speculation_there_is_nothing_to_measure(tiny_model: Path, asked: list[str]) -> None:
    done = command(*asked, "--model", tiny_model, "--set", "speculation.method=off")
    assert done.returncode == 1
    assert "speculation is off" in done.stderr


def test_too_few_draft_tokens_make_no_figure(tiny_model: Path, asked: list[str], tmp_path: Path) -> None:
    settings = ["speculation.mode=fixed", "speculation.num_speculative_tokens=2", "dtype=float32"]
    figure = tmp_path / "calibration.svg"
    limits = ["--limit", "2", "--max-tokens", "16", "--figure", figure]
    done = command(*asked, "--model", tiny_model, "--set", *settings, *limits)
    assert done.returncode == 1
    assert "too short" in done.stderr or "too few" in done.stderr
    assert not figure.exists()
