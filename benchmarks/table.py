"""Tables of plain text."""

from __future__ import annotations

from collections.abc import Sequence

ABSENT = "-"


def render(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column is left-aligned, the others right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = ["-" * width for width in widths]
    return "\n".join([title, *(_line(cells, widths) for cells in (header, rule, *rows)), ""])


def number(value: float | None, digits: int = 2) -> str:
    return ABSENT if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.1%}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]).rstrip()
