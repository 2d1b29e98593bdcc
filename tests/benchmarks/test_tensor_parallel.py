"""`python -m benchmarks tensor-parallel` on a tiny model: what a step is made of."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_models import save_tiny, tiny_model


@pytest.mark.slow
def test_the_parts_of_a_step_are_told_apart(tmp_path: Path) -> None:
    folder, path = save_tiny(tmp_path / "model", tiny_model()), tmp_path / "ranks.json"
    command = [sys.executable, "-m", "benchmarks", "tensor-parallel", "--model", str(folder)]
    options = ["--dtype", "float32", "--ranks", "2", "--requests", "1,3", "--max-tokens", "8"]
    done = subprocess.run([*command, *options, "--json", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads(path.read_text())["rows"]
    assert [(row["ranks"], row["concurrency"]) for row in rows] == [(1, 1), (1, 3), (2, 1), (2, 3)]
    for row in rows[:2]:
        assert row["control_s"] == row["sums_s"] == row["logits_s"] == 0
    for row in rows[2:]:
        assert 0 < row["control_s"] + row["sums_s"] + row["logits_s"] < row["step_s"]
        assert row["control_share"] == pytest.approx(row["control_s"] / row["step_s"], rel=1e-4)
        assert all(margin < 1e-3 for margin in row["margins_at_first_difference"])
    assert 0 < rows[2]["message_bytes"] < rows[3]["message_bytes"] < 2000
