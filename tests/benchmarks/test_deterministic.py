"""`python -m benchmarks deterministic` on a tiny model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_every_load_is_timed_on_both_sides(tiny_model: Path, tmp_path: Path) -> None:
    result = tmp_path / "deterministic.json"
    options = ["--model", str(tiny_model), "--repeats", "1", "--json", str(result)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "deterministic", *options], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(result.read_text())["rows"]
    assert [row["concurrency"] for row in rows] == [1, 1, 1, 8]
    assert all(row["method"] in done.stdout for row in rows)
    # A row at a time cannot be as fast as all rows together.
    assert rows[0]["cost"] > 1
