"""`python -m benchmarks coupling` on a tiny model: coupling changes how much is accepted, and no token."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from question_files import write_questions
from tiny_heads import TinyHead, save_head


@pytest.fixture
def head(tiny_model: Path, tmp_path: Path) -> Path:
    vocab_size = json.loads((tiny_model / "config.json").read_text())["vocab_size"]
    return save_head(TinyHead(vocab_size=vocab_size, draft_vocab=vocab_size), tmp_path / "head", "specforge")


@pytest.mark.slow
def test_sampled_drafts_are_compared(tiny_model: Path, head: Path, tmp_path: Path) -> None:
    write_questions(tmp_path, "alpaca", [[f"say {i}"] for i in range(3)])
    result, figure = tmp_path / "coupling.json", tmp_path / "coupling.png"
    options = ["--tasks", "alpaca", "--max-tokens", "40", "--temperatures", "1", "--spreads", "0.5", "1"]
    where = ["--questions", tmp_path, "--model", tiny_model, "--head", head, "--dtype", "float32"]
    command = [*where, *options, "--json", result, "--figure", figure]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "coupling", *map(str, command)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    rows = {row["method"]: row for row in json.loads(result.read_text())["rows"]}
    assert rows.keys() == {"greedy", "uncoupled", "coupled 0.5", "coupled 1"}
    # With a vocabulary of its own for every token and noise that is shared, even a random head guesses well.
    assert rows["coupled 1"]["tau"] > rows["uncoupled"]["tau"]
    assert rows["uncoupled"]["recovered"] is None
    assert figure.stat().st_size > 1000
