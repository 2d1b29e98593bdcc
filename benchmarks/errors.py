"""What goes wrong in a benchmark, said in one sentence to whoever runs it."""

from __future__ import annotations


class BenchmarkError(Exception):
    """Wrong input, or a system under test that failed."""
