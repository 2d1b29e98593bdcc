"""`python -m benchmarks calibration`: what confidences promise, and what comes true."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tqdm import tqdm

from benchmarks.answers import Prompt
from benchmarks.asked import ask
from benchmarks.errors import BenchmarkError
from benchmarks.figure import Diagram, draw
from benchmarks.in_process import InProcess
from benchmarks.parsing import given
from benchmarks.questions import read_questions
from benchmarks.report import ALL_TASKS, Row, write_report
from benchmarks.table import number, render
from serving.config import ServeConfig
from serving.router.model import ServedModel
from serving.spec.calibration import DEPTHS, ORIGINS, Method, is_sampled, method_of, origin_of
from serving.spec.reliability import Reliability

SECTION = "calibration"
METHODS = {Method.NETWORK: "head or draft model", Method.LOOKUP: "prompt lookup", Method.BOTH: "both agree"}
STAGES = {"raw": False, "calibrated": True}
LEAST = 25  # observations of a bin that is drawn


class Halves(NamedTuple):
    """Prompts to learn from, and to measure."""

    first: list[Prompt]
    second: list[Prompt]


def run(options: argparse.Namespace, arguments: list[str]) -> None:
    """Raises BenchmarkError where nothing was drafted, or too little for a figure."""
    settings = dict(pair.split("=", 1) for pair in options.set)
    config = ServeConfig.load({"model": options.model, **settings})
    if config.speculation.method == "off":
        raise BenchmarkError("speculation is off: there is nothing to calibrate")
    measured = measure(config, options)
    rows = rows_of(measured, options.concurrency)
    print(table(rows))
    if options.json is not None:
        write_report(options.json, arguments, given(options), rows)
    if options.figure is not None:
        draw(_diagrams(measured), options.figure)


def measure(config: ServeConfig, options: argparse.Namespace) -> Reliability:
    """Of the second half of the questions; the first has taught the calibration. options: of the command."""
    system = InProcess(config, options.max_tokens)
    return _measure(system, _prompts(options, system), options)


def rows_of(measured: Reliability, concurrency: int) -> list[Row]:
    """Everything together, then each method and mode, then each of their depths, if there is any such.

    Raises BenchmarkError where nothing was drafted.
    """
    parts: list[tuple[int | None, int | None]] = [(None, None)]
    for origin in range(ORIGINS):
        parts += [(origin, None), *((origin, depth) for depth in range(1, DEPTHS + 1))]
    rows = [_row(measured, origin, depth, concurrency) for origin, depth in parts]
    if rows[0] is None:
        raise BenchmarkError("the answers are too short to speculate in")
    return [row for row in rows if row is not None]


def _prompts(options: argparse.Namespace, system: InProcess) -> Halves:
    served, halves = ServedModel(system.engine.card()), Halves([], [])
    for task in options.tasks.split(","):
        questions = read_questions(options.questions, task)[: options.limit]
        prompts = [asked.prompt for asked in ask(task, questions, served, options.max_tokens)]
        halves.first.extend(prompts[: len(prompts) // 2])
        halves.second.extend(prompts[len(prompts) // 2 :])
    return halves


def _measure(system: InProcess, halves: Halves, options: argparse.Namespace) -> Reliability:
    """Of the second half: every observation since the calibration has seen the first."""
    calibrator = system.engine.calibrator
    assert calibrator is not None
    _answer(system, halves.first, options)
    calibrator.fit()
    calibrator.reliability = measured = Reliability(ORIGINS, DEPTHS, math.inf)
    _answer(system, halves.second, options)
    calibrator.fit()
    return measured


def _answer(system: InProcess, prompts: Sequence[Prompt], options: argparse.Namespace) -> None:
    size = options.concurrency
    waves = [prompts[start : start + size] for start in range(0, len(prompts), size)]
    for temperature in options.temperatures:
        for wave in tqdm(waves, desc=f"temperature {temperature:g}"):
            system.run(wave, None, {"temperature": temperature})


def _row(measured: Reliability, origin: int | None, depth: int | None, concurrency: int) -> Row | None:
    error = measured.error(origin, depth)
    if error is None:
        return None
    special: dict[str, Any] = {
        "mode": None if origin is None else _mode(origin),
        "depth": depth,
        "observations": round(measured.weight(origin, depth)),
        "ece_raw": error.raw,
        "ece_calibrated": error.calibrated,
        "ece_by_chance": measured.chance(origin, depth),
    }
    if origin is not None:
        for name, calibrated in STAGES.items():
            special[f"bins_{name}"] = [each._asdict() for each in measured.bins(origin, calibrated, depth)]
    method = "all" if origin is None else METHODS[method_of(origin)]
    return Row(SECTION, ALL_TASKS, method, concurrency, special=special)


def _mode(origin: int) -> str:
    return "sampled" if is_sampled(origin) else "greedy"


def table(rows: Sequence[Row]) -> str:
    lines = [
        [
            " ".join(filter(None, (row.method, row.special["mode"]))),
            "all" if row.special["depth"] is None else str(row.special["depth"]),
            str(row.special["observations"]),
            number(row.special["ece_raw"], 3),
            number(row.special["ece_calibrated"], 3),
            number(row.special["ece_by_chance"], 3),
        ]
        for row in rows
    ]
    header = ["drafted by", "depth", "draft tokens", "raw", "calibrated", "by chance"]
    return render("Expected calibration error", header, lines)


def _diagrams(measured: Reliability) -> list[Diagram]:
    """A panel per method that drafted enough."""
    panels = []
    for method, title in METHODS.items():
        series = {
            f"{_mode(origin)}, {name}": _points(measured, origin, calibrated)
            for origin in (origin_of(method, False), origin_of(method, True))
            for name, calibrated in STAGES.items()
        }
        drawn = {name: points for name, points in series.items() if points}
        if drawn:
            panels.append(Diagram(title, "confidence", "share accepted", drawn))
    if not panels:
        raise BenchmarkError(f"too few draft tokens for a figure: no confidence had {LEAST} of them")
    return panels


def _points(measured: Reliability, origin: int, calibrated: bool) -> list[tuple[float, float]]:
    bins = measured.bins(origin, calibrated)
    return [(each.confidence, each.accepted) for each in bins if each.weight >= LEAST]
