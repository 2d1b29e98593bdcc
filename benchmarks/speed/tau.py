"""Section `tau`: how much trees of a given size commit, whatever they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.answers import Answer, Method
from benchmarks.asked import Asked
from benchmarks.report import ALL_TASKS, Row
from benchmarks.speed.tasks import tau

SECTION = "tau"
SIZES = (8, 16, 32)
DEPTH = 8
# Of the engines that this section asks: their trees are cut to each size by the requests.
SETTINGS: dict[str, Any] = {
    "speculation.num_speculative_tokens": max(SIZES),
    "speculation.max_depth": DEPTH,
    "speculation.min_path_value": 0.0,
}


def measure_tau(
    asked: Mapping[str, Sequence[Asked]], methods: Sequence[Method], tick: Callable[[], object]
) -> list[Row]:
    """One row per task, method and size, then their means over the tasks. `tick`: after every answer."""
    rows = []
    for method in methods:
        for size in SIZES:
            taus = []
            for task, questions in asked.items():
                answers: list[Answer] = []
                for question in questions:
                    answers += method.system.run([question.prompt], size).answers
                    tick()
                taus.append(tau(answers))
                rows.append(_row(task, method, size, taus[-1]))
            known = [value for value in taus if value is not None]
            rows.append(_row(ALL_TASKS, method, size, fmean(known) if known else None))
    return rows


def _row(task: str, method: Method, size: int, value: float | None) -> Row:
    return Row(SECTION, task, method.name, 1, tau=value, special={"num_speculative_tokens": size})
