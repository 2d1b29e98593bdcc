"""How m follows a step change of load, and of what is generated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import NamedTuple

from benchmarks.load.drive import Driver, Work
from benchmarks.report import ALL_TASKS, Row
from serving.types import GenerationRequest

CROWD = 64
STEPS = 60
TEXTS = 16
WINDOW = 5  # steps
TOLERANCE = 0.5  # draft tokens per sequence
LONG = 1024


def settle(driver: Driver, works: Sequence[Work]) -> list[Row]:
    """Rows of the phases 1 -> CROWD -> 1 sequences, and of easy -> hard -> easy traffic with one of them."""
    rows = []
    for change, trace_of in CHANGES.items():
        traces = [trace_of(driver, [*works[i:], *works[:i]]) for i in range(TEXTS)]
        rows += [_row(change, phase, [trace[phase] for trace in traces]) for phase in traces[0]]
    return rows


def _change_of_load(driver: Driver, works: Sequence[Work]) -> dict[str, list[float]]:
    """m of every phase's steps."""
    crowd = [f"crowd{i}" for i in range(CROWD - 1)]
    _add(driver, "alone", works[0])
    phases = {"1 sequence": _steps(driver)}
    for place, name in enumerate(crowd):
        _add(driver, name, works[(1 + place) % len(works)])
    while driver.engine.scheduler.num_waiting or driver.engine.last_report.decoding < CROWD:
        driver.engine.step()
    phases[f"{CROWD} sequences"] = _steps(driver)
    for name in crowd:
        driver.engine.abort(name)
    phases["1 sequence again"] = _steps(driver)
    _end(driver, ["alone"])
    return phases


def _change_of_traffic(driver: Driver, works: Sequence[Work]) -> dict[str, list[float]]:
    """A greedy answer to a question, then random words: at this temperature the model hardly matters."""
    phases = {}
    for phase, temperature in (("easy text", 0.0), ("random words", 4.0), ("easy text again", 0.0)):
        _add(driver, phase, Work(works[0].prompt, replace(works[0].params, temperature=temperature)))
        phases[phase] = _steps(driver)
        _end(driver, [phase])
    return phases


CHANGES = {
    f"1, {CROWD}, 1 sequences": _change_of_load,
    "easy text, random words, easy text": _change_of_traffic,
}


def _add(driver: Driver, name: str, work: Work) -> None:
    endless = replace(work.params, max_tokens=LONG, stop_token_ids=frozenset())
    driver.engine.add(GenerationRequest(name, work.prompt, endless))


def _end(driver: Driver, names: Sequence[str]) -> None:
    for name in names:
        driver.engine.abort(name)
    while driver.engine.has_work:
        driver.engine.step()


def _steps(driver: Driver) -> list[float]:
    """m of the next steps that decode."""
    ms: list[float] = []
    while len(ms) < STEPS:
        driver.engine.step()
        report = driver.engine.last_report
        if report.decoding:
            ms.append(report.draft_tokens / report.decoding)
    return ms


class Settled(NamedTuple):
    """final_m: median of the second half. after_steps: from there on m stays near it, in the first half;
    away_afterwards: how often it does not in the second."""

    final_m: float
    after_steps: int
    away_afterwards: int


def settled(ms: Sequence[float]) -> Settled:
    """By medians of WINDOW steps: what single trees do to m is not unrest."""
    means = [median(ms[i : i + WINDOW]) for i in range(len(ms) - WINDOW + 1)]
    half = len(means) // 2
    final = median(means[half:])
    away = [i for i, mean in enumerate(means) if abs(mean - final) > max(TOLERANCE, 0.3 * final)]
    early = [i for i in away if i < half]
    return Settled(final, early[-1] + 1 if early else 0, len(away) - len(early))


def _row(change: str, phase: str, traces: Sequence[Sequence[float]]) -> Row:
    """traces: m of each text's steps. Their mean shows the controller; one text's m follows the text."""
    ms = [fmean(step) for step in zip(*traces, strict=True)]
    special = {"change": change, "phase": phase, "texts": len(traces), "m": ms, **settled(ms)._asdict()}
    return Row("settle", ALL_TASKS, "auto", 0, special=special)
