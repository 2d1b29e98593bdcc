"""`python -m benchmarks prefix` on a tiny model: what was cached, and where it is written down."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tiny_models import save_tiny, tiny_model


def test_the_second_request_of_a_pair_finds_the_prefix(tmp_path: Path) -> None:
    folder, path = save_tiny(tmp_path / "model", tiny_model()), tmp_path / "prefix.json"
    command = [sys.executable, "-m", "benchmarks", "prefix", "--model", str(folder), "--repeats", "2"]
    options = ["--prefix", "100", "--suffix", "5", "--json", str(path)]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    _, _, _, cold, cached, *_ = done.stdout.splitlines()
    assert cold.split()[:2] == ["cold", "0"]
    assert cached.split()[:2] == ["cached", "96"]
    report = json.loads(path.read_text())
    assert report["command"].startswith("python -m benchmarks prefix --model")
    assert report["settings"] == {"model": str(folder), "prefix": 100, "suffix": 5, "repeats": 2}
    ratios = [row["ttft_vs_cold"] for row in report["rows"]]
    assert ratios[0] == 1.0
    assert 0 < ratios[1] < 1
