"""Section `breakdown`: where a step's time goes while one request decodes, and while eight do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.answers import Method, Window
from benchmarks.asked import Asked
from benchmarks.report import Row
from benchmarks.rotation import rotated
from benchmarks.speed.batch import MIXED, num_waves

SECTION = "breakdown"
SIZES = (1, 8)
# In the order of a step; `rest` is what the step loop does between steps, and what no phase covers.
PHASES = ("schedule", "choose", "draft", "wire", "forward", "sample", "compact", "output")
REST = "rest"


# windows[method, requests]
Windows = Mapping[tuple[str, int], list[Window]]


def methods_at(size: int, methods: Sequence[Method]) -> list[Method]:
    """Over HTTP a request alone has no window: asking for its ends would disturb it."""
    return [method for method in methods if size > 1 or method.through == "engine"]


def waves_at(size: int) -> int:
    return num_waves(max(SIZES), size)


def run_waves(
    asked: list[Asked], methods: Sequence[Method], repeats: int, tick: Callable[[], object]
) -> Windows:
    """`tick` is called after every wave."""
    windows: dict[tuple[str, int], list[Window]] = {}
    for repeat in range(repeats):
        for size in SIZES:
            for index in range(waves_at(size)):
                prompts = [question.prompt for question in asked[index * size : (index + 1) * size]]
                for method in rotated(methods_at(size, methods), repeat + index):
                    window = method.run(prompts).window
                    if window is not None:
                        windows.setdefault((method.name, size), []).append(window)
                    tick()
    return windows


def breakdown_rows(windows: Windows) -> list[Row]:
    """None for a method whose answers were too short to be decoded together."""
    return [
        Row(SECTION, MIXED, method, size, special=_special(each))
        for (method, size), each in sorted(windows.items(), key=lambda item: item[0][1])
        if sum(window.steps for window in each)
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
        "draft_share": phases["draft"] / phases["forward"],
    }
