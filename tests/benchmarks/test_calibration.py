"""`python -m benchmarks calibration` on a tiny model: what was promised, what came true, and where it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_heads import TinyHead, save_head


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    lines = [json.dumps({"question_id": i, "category": "", "turns": [f"say {i}"]}) for i in range(8)]
    (tmp_path / "alpaca.jsonl").write_text("\n".join(lines))
    return ["--questions", str(tmp_path), "--tasks", "alpaca", "--max-tokens", "60"]


def test_each_map_is_measured(run_here: Any, tiny_model: Path, asked: list[str], tmp_path: Path) -> None:
    vocab_size = json.loads((tiny_model / "config.json").read_text())["vocab_size"]
    made = TinyHead(vocab_size=vocab_size, draft_vocab=vocab_size)
    head = save_head(made, tmp_path / "head", "specforge")
    result, figure = tmp_path / "calibration.json", tmp_path / "calibration.svg"
    drafting = [f"speculation.head={head}", "speculation.mode=fixed", "speculation.num_speculative_tokens=5"]
    settings = [*drafting, "speculation.min_path_value=0", "dtype=float32"]
    where = ["--json", result, "--figure", figure]
    done = run_here("calibration", *asked, "--model", tiny_model, "--set", *settings, *where)
    assert done.status == 0, done.err
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
    assert done.out.splitlines()[3].split()[:2] == ["all", "all"]
    assert figure.stat().st_size > 1000


def _map(row: dict[str, object]) -> tuple[object, object]:
    return row["method"], row["mode"]


def test_without_speculation_there_is_nothing_to_measure(
    run_here: Any, tiny_model: Path, asked: list[str]
) -> None:
    done = run_here("calibration", *asked, "--model", tiny_model, "--set", "speculation.method=off")
    assert done.status == 1
    assert "speculation is off" in done.err


def test_too_few_draft_tokens_make_no_figure(
    run_here: Any, tiny_model: Path, asked: list[str], tmp_path: Path
) -> None:
    settings = ["speculation.mode=fixed", "speculation.num_speculative_tokens=2", "dtype=float32"]
    figure = tmp_path / "calibration.svg"
    limits = ["--limit", "2", "--max-tokens", "16", "--figure", figure]
    done = run_here("calibration", *asked, "--model", tiny_model, "--set", *settings, *limits)
    assert done.status == 1
    assert "too short" in done.err or "too few" in done.err
    assert not figure.exists()
