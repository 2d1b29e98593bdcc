"""`python -m benchmarks prefix` on a tiny model: what was cached, and where it is written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_models import save_tiny, tiny_model

from benchmarks.prefix import Timed, rows_of


def test_the_second_request_of_a_pair_finds_the_prefix(run_here: Any, tmp_path: Path) -> None:
    folder, path = save_tiny(tmp_path / "model", tiny_model()), tmp_path / "prefix.json"
    options = ["--repeats", "1", "--prefix", "100", "--suffix", "5", "--json", path]
    done = run_here("prefix", "--model", folder, *options)
    assert done.status == 0, done.err
    _, _, _, cold, cached, *_ = done.out.splitlines()
    assert cold.split()[:2] == ["cold", "0"]
    assert cached.split()[:2] == ["cached", "96"]
    report = json.loads(path.read_text())
    assert report["command"].startswith("python -m benchmarks prefix --model")
    assert report["settings"] == {"model": str(folder), "prefix": 100, "suffix": 5, "repeats": 1}
    first, second = report["rows"]
    assert (first["cached_tokens"], second["cached_tokens"]) == (0, 96)
    assert first["ttft_vs_cold"] == 1.0
    # Of one pair. Which of them is quicker is the machine's affair where a forward takes a millisecond.
    assert second["ttft_vs_cold"] == pytest.approx(second["ttft_s"] / first["ttft_s"], rel=1e-4)


def test_a_request_is_compared_with_the_other_of_its_pair() -> None:
    cold = [Timed(2.0, 0), Timed(4.0, 0), Timed(100.0, 0)]
    warm = [Timed(1.0, 96), Timed(1.0, 96), Timed(10.0, 80)]
    first, second = rows_of(cold, warm, 100)
    assert (first.special["ttft_s"], second.special["ttft_s"]) == (4.0, 1.0)
    assert (first.special["ttft_vs_cold"], second.special["ttft_vs_cold"]) == (1.0, 0.25)
    assert (first.special["cached_tokens"], second.special["cached_tokens"]) == (0, 96)
    assert first.special["pairs"] == second.special["pairs"] == 3
