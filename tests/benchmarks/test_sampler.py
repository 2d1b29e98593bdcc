"""`python -m benchmarks sampler` on a tiny model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def test_every_kind_of_sampling_is_measured(run_here: Any, tiny_model: Path, tmp_path: Path) -> None:
    result = tmp_path / "sampler.json"
    options = ["--model", tiny_model, "--dtype", "float32", "--repeats", "1", "--json", result]
    done = run_here("sampler", *options)
    assert done.status == 0, done.err
    rows = json.loads(result.read_text())["rows"]
    assert [row["method"] for row in rows] == ["greedy", "temperature", "top_p", "top_k, min_p"]
    assert all(0 < row["share"] < 1 for row in rows)
