"""Pieces of a Markdown page."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.table import ABSENT


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column is left-aligned, the others right."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def times(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.2f}x"


def speedup_and_tau(speedup: float | None, tau: float | None) -> str:
    """As the papers' tables have them, side by side."""
    return ABSENT if speedup is None or tau is None else f"{times(speedup)} / {tau:.2f}"


def interval(low_and_high: Sequence[float]) -> str:
    low, high = low_and_high
    return f"[{low:.2f}, {high:.2f}]"
