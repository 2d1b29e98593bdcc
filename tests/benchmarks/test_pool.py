"""`python -m benchmarks pool` on a tiny model: rows for every way, and where the time went."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.ray
def test_ways_are_compared_and_their_steps_told_apart(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "said.jsonl").write_text(json.dumps({"question_id": 1, "category": "c", "turns": ["ab" * 9]}))
    path = tmp_path / "pool.json"
    command = [sys.executable, "-m", "benchmarks", "pool", "--model", str(tiny_model), "--dtype", "float32"]
    questions = ["--questions", str(tmp_path), "--task", "said", "--clients", "1,3"]
    sizes = ["--max-tokens", "12", "--repeats", "2", "--json", str(path), "--set", "engine.num_threads=1"]
    settings = ["speculation.num_speculative_tokens=4", "speculation.method=prompt_lookup"]
    done = subprocess.run([*command, *questions, *sizes, *settings], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads(path.read_text())["rows"]
    ways = ["plain", "colocated", "pool, overlap off", "pool, overlap always"]
    assert [(row["concurrency"], row["method"]) for row in rows] == [(n, way) for n in (1, 3) for way in ways]
    assert all(row["identical"] == 1 for row in rows)
    pooled = [row for row in rows if row["method"].startswith("pool")]
    assert all(row["ray_calls_s"] > 0 and row["step_s"] > row["wire_s"] > 0 for row in pooled)
    assert "3 clients, pool, overlap always: " in done.stdout
