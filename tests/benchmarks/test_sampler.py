"""`python -m benchmarks sampler` on a tiny model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_every_kind_of_sampling_is_measured(tiny_model: Path, tmp_path: Path) -> None:
    result = tmp_path / "sampler.json"
    options = ["--model", str(tiny_model), "--dtype", "float32", "--repeats", "1", "--json", str(result)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "sampler", *options], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(result.read_text())["rows"]
    assert [row["method"] for row in rows] == ["greedy", "temperature", "top_p", "top_k, min_p"]
    assert all(0 < row["share"] < 1 for row in rows)
