"""The results as a figure: rates by task, and how they grow with requests at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.figure import Bars, Lines, draw
from benchmarks.report import ALL_TASKS, Row
from benchmarks.speed import batch, tasks


def draw_chart(rows: Sequence[Row], path: Path) -> None:
    """Draws what the rows have; nothing where no rate was measured."""
    panels = [panel for panel in (_by_task(rows), _by_load(rows)) if panel is not None]
    if panels:
        draw(panels, path)


def _by_task(rows: Sequence[Row]) -> Bars | None:
    rates = {
        (row.method, row.task): row.tokens_per_s
        for row in rows
        if row.section == tasks.SECTION and row.task != ALL_TASKS
    }
    if not rates:
        return None
    labels = list(dict.fromkeys(task for _, task in rates))
    methods = dict.fromkeys(method for method, _ in rates)
    series = {method: [rates[method, task] for task in labels] for method in methods}
    return Bars("One request at a time", "tokens/s, prefill included", labels, series)


def _by_load(rows: Sequence[Row]) -> Lines | None:
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row.section == batch.SECTION and row.tokens_per_s is not None:
            series.setdefault(row.method, []).append((row.concurrency, row.tokens_per_s))
    if not series:
        return None
    return Lines("Requests at once", "tokens/s of all together", series)
