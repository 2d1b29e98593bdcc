"""Section `breakdown`: where a step's time goes while eight requests decode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.answers import Method, Window
from benchmarks.report import Row
from benchmarks.speed.asked import Asked
from benchmarks.speed.batch import MIXED
from benchmarks.speed.rotation import rotated

SECTION = "breakdown"
REQUESTS = 8
# In the order of a step; `rest` is what the step loop does between steps, and what no phase covers.
PHASES = ("schedule", "draft", "wire", "forward", "sample", "compact", "output")
REST = "rest"


def run_waves(
    asked: list[Asked], methods: Sequence[Method], repeats: int, tick: Callable[[], object]
) -> dict[str, list[Window]]:
    """Windows by method. `tick` is called after every wave."""
    windows: dict[str, list[Window]] = {method.name: [] for method in methods}
    for repeat in range(repeats):
        for method in rotated(methods, repeat):
            window = method.run([question.prompt for question in asked]).window
            if window is not None:
                windows[method.name].append(window)
            tick()
    return windows


def breakdown_rows(windows: dict[str, list[Window]]) -> list[Row]:
    """None for a method whose answers were too short to be decoded together."""
    return [
        Row(SECTION, MIXED, method, REQUESTS, special=_special(of_method))
        for method, of_method in windows.items()
        if sum(window.steps for window in of_method)
    ]


def _special(windows: list[Window]) -> dict[str, Any]:
    steps = sum(window.steps for window in windows)
    step_ms = 1e3 * sum(window.seconds for window in windows) / steps
    phases = {p: 1e3 * sum(window.times[p] for window in windows) / steps for p in PHASES}
    outside = step_ms - phases["forward"] - phases["draft"]
    return {
        "steps": steps,
        "step_ms": step_ms,
        "phases_ms": phases | {REST: step_ms - sum(phases.values())},
        "overhead_share": outside / step_ms,
    }
