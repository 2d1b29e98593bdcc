"""`python -m benchmarks kernels` on a tiny model: a row of the table per number of rows asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tiny_models import save_tiny, tiny_model


def test_a_line_per_number_of_rows(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "model", tiny_model())
    command = [sys.executable, "-m", "benchmarks", "kernels", "--model", str(folder), "--repeats", "2"]
    done = subprocess.run([*command, "--rows", "1,7"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    title, header, _, *rows = done.stdout.strip().splitlines()
    assert "bfloat16" in title
    assert header.split() == ["rows", "torch", "ms", "kernels", "ms", "ratio"]
    assert [row.split()[0] for row in rows] == ["1", "7"]
    assert all(row.endswith("x") and float(row.split()[1]) > 0 for row in rows)
