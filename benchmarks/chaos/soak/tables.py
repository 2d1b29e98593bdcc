"""The results of a soak as a table, as rows and as one figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.chaos.soak.judged import Judged
from benchmarks.chaos.soak.samples import Sample
from benchmarks.chaos.soak.trend import Trend
from benchmarks.figure import OverTime, draw
from benchmarks.report import Row
from benchmarks.table import number, render

SECTION = "soak"


def print_table(judged: Judged) -> None:
    lines = [[name, *_cells(trend)] for name, trend in _trends(judged).items()]
    title = f"After the warm-up; {judged.answers} answers in all, {len(judged.failures)} failures"
    print(render(title, ["", "mean", "slope a minute", "+- (2 standard errors)"], lines))
    print(judged.verdict)


def rows(judged: Judged, samples: Sequence[Sample]) -> list[Row]:
    """One for each trend, and one with the samples."""
    trends = [_row(name, trend._asdict()) for name, trend in _trends(judged).items()]
    told = {"answers": judged.answers, "troubles": judged.troubles, "verdict": judged.verdict}
    told |= {"passed": not judged.troubles}
    return [*trends, _row("all", told | {"samples": [asdict(sample) for sample in samples]})]


def chart(samples: Sequence[Sample], warm_up: float, path: Path) -> None:
    """warm_up: minutes that were not judged."""
    first = samples[0].total_mb
    memory = _series(samples, lambda sample: sample.memory_mb | {"all": sample.total_mb})
    growth = _series(samples, lambda sample: {"all": sample.total_mb - first})
    counts = _series(samples, lambda s: {"open files": s.descriptors, "objects": s.objects})
    panels = [
        OverTime("memory", "MB", memory, warm_up),
        OverTime("memory, against the start", "MB", growth, warm_up),
        OverTime("open files and objects", "count", counts, warm_up),
    ]
    draw(panels, path)


def _series(
    samples: Sequence[Sample], values: Callable[[Sample], Mapping[str, float]]
) -> dict[str, list[tuple[float, float]]]:
    series: dict[str, list[tuple[float, float]]] = {}
    for sample in samples:
        for name, value in values(sample).items():
            series.setdefault(name, []).append((sample.minutes, value))
    return series


def _trends(judged: Judged) -> dict[str, Trend]:
    """By what they are of; memory in megabytes."""
    parts = judged.whose | judged.service | judged.ray
    memory = {f"memory of {name}": trend for name, trend in parts.items()}
    counts = {"open files": judged.descriptors, "objects": judged.objects}
    return {"memory, all": judged.memory, **memory, **counts}


def _cells(trend: Trend) -> list[str]:
    return [number(trend.mean, 1), number(trend.slope, 3), number(2 * trend.error, 3)]


def _row(name: str, told: dict[str, Any]) -> Row:
    return Row(SECTION, "generated requests", name, 0, special=told)
