"""Parts of tables that several commands print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.report import ALL_TASKS, Row
from benchmarks.table import ABSENT, render


def identical(row: Row) -> str:
    """Answers that equal plain decoding's, of those compared."""
    compared = row.special["compared"]
    return f"{compared - len(row.special['differences'])}/{compared}"


def with_interval(value: float | None, interval: Sequence[float] | None) -> str:
    if value is None or interval is None:
        return ABSENT
    return f"{value:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"


def differences(rows: Sequence[Row]) -> Iterator[str]:
    """A table of the answers that differ from plain decoding's, if there are any."""
    lines = [
        [
            f"{difference['task']} {difference['question_id']}, turn {difference['turn']}",
            row.method,
            str(row.concurrency),
            ABSENT if difference["position"] is None else str(difference["position"]),
            ABSENT if difference["margin"] is None else f"{difference['margin']:.2g}",
        ]
        for row in rows
        if row.task != ALL_TASKS
        for difference in row.special.get("differences", ())
    ]
    if lines:
        header = ["question", "method", "requests", "first other token", "plain's margin there"]
        yield render("Answers that differ from plain's", header, lines)
