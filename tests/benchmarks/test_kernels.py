"""`python -m benchmarks kernels` on a tiny model: a row of the table per number of rows asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tiny_models import save_tiny, tiny_model


def test_a_line_per_number_of_rows(run_here: Any, tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "model", tiny_model())
    done = run_here("kernels", "--model", folder, "--repeats", "2", "--rows", "1,7")
    assert done.status == 0, done.err
    title, header, _, *rows = done.out.strip().splitlines()
    assert "bfloat16" in title
    assert header.split() == ["rows", "torch", "ms", "kernels", "ms", "ratio"]
    assert [row.split()[0] for row in rows] == ["1", "7"]
    assert all(row.endswith("x") and float(row.split()[1]) > 0 for row in rows)
