"""What `python -m benchmarks chaos` prints."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.chaos.rows import Checked
from benchmarks.table import ABSENT, number, percent, render

SHOWN = 5
"""Differences and failures of a scenario that are printed; the report has all."""


def print_tables(checked: Sequence[Checked]) -> None:
    header = ["scenario", "requests", "complete", "identical", "killed", "replayed", "recovered s"]
    header += ["gap p50 s", "gap max s", "left over", "passed"]
    print(render("The service while its parts die", header, [_line(each) for each in checked]))
    for each in checked:
        for sentence in _sentences(each):
            print(f"{each.result.scenario}: {sentence}")


def _line(checked: Checked) -> list[str]:
    result, figures = checked.result, checked.result.figures
    verdict = result.verdict
    return [
        result.scenario,
        ABSENT if verdict is None else str(verdict.total),
        percent(None if verdict is None else verdict.complete),
        percent(None if verdict is None else verdict.identical),
        _counts(figures.get("kills", {})),
        str(figures.get("replayed", ABSENT)),
        _recovery(figures),
        number(figures.get("gap_p50_s")),
        number(figures.get("gap_max_s")),
        str(len(checked.leaks)),
        "yes" if checked.passed else "NO",
    ]


def _counts(kills: dict[str, int]) -> str:
    return " ".join(f"{count} {kind}" for kind, count in kills.items()) or ABSENT


def _recovery(figures: dict[str, object]) -> str:
    """The slowest kind's, or how long it took to replace or drain."""
    for name in ("recovery_s", "replaced_s", "drained_s"):
        value = figures.get(name)
        if isinstance(value, dict):
            return number(max(value.values(), default=None), 1)
        if isinstance(value, float):
            return number(value, 1)
    return ABSENT


def _sentences(checked: Checked) -> list[str]:
    result, figures = checked.result, checked.result.figures
    found = [*result.troubles, *checked.leaks]
    if "prefill_s" in figures:
        found.append(
            f"the replayed text's prefill takes {figures['prefill_s']:.3f} s; "
            f"half of the streams went on within {figures['gap_p50_s']:.2f} s of {figures['limit_s']:.2f} s"
        )
    if result.verdict is not None:
        found += result.verdict.failures[:SHOWN]
        found += [str(difference) for difference in result.verdict.differences[:SHOWN]]
    return found
