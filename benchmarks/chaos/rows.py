"""Results as the report's rows."""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks.chaos.bench import Result
from benchmarks.chaos.leaks import Footprint
from benchmarks.chaos.options import ChaosOptions
from benchmarks.report import Row

SECTION = "chaos"


class Checked(NamedTuple):
    """A scenario's result, and what it left behind: `leaks` in words."""

    result: Result
    after: Footprint
    leaks: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return self.result.passed and not self.leaks


def row(options: ChaosOptions, checked: Checked) -> Row:
    result = checked.result
    special: dict[str, Any] = {
        "passed": checked.passed,
        "troubles": list(result.troubles),
        "leaks": list(checked.leaks),
        "after": checked.after.as_json(),
        **result.figures,
    }
    if result.verdict is not None:
        special |= result.verdict.as_json()
    return Row(
        SECTION,
        "generated requests",
        result.scenario,
        1 if result.verdict is None else options.concurrency,
        identical=None if result.verdict is None else result.verdict.identical,
        special=special,
    )
