"""`python -m benchmarks speed`, from the options to the tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from tqdm import tqdm

from benchmarks.asked import mixed
from benchmarks.questions import Question, read_questions
from benchmarks.report import ALL_TASKS, Row, write_report
from benchmarks.speed import batch, breakdown, footprint, tasks, tau
from benchmarks.speed.methods import TRANSFORMERS
from benchmarks.speed.options import Options
from benchmarks.speed.plan import plan
from benchmarks.speed.tables import print_tables
from benchmarks.speed.targets import verdicts
from benchmarks.waiting import wait_as_the_service_does

if TYPE_CHECKING:
    from benchmarks.answers import Method
    from benchmarks.speed.setup import Bench

Tick = Callable[[], object]


class _Measured(NamedTuple):
    """dtype: what `auto` came to."""

    rows: list[Row]
    dtype: str


def run(options: Options, arguments: list[str]) -> None:
    """Raises BenchmarkError for wrong input and failed systems, and what loading a model raises."""
    questions = {task: read_questions(options.questions, task)[: options.limit] for task in options.tasks}
    settings = _settings(options)
    environment = dict(os.environ)
    planned = plan(options, sum(map(len, questions.values())))
    print(f"This takes about {planned.seconds / 60:.0f} min ({planned.runs} timed runs).", flush=True)
    rows: list[Row] = []
    if footprint.SECTION in options.sections:
        rows += footprint.measure_memory(options, settings, environment)
    written = options.as_json()
    if planned.runs:
        measured = _measure_speed(options, settings, questions, environment, planned.runs)
        rows += measured.rows
        written["dtype"] = measured.dtype
    print_tables(rows, verdicts(rows))
    if options.json is not None:
        write_report(options.json, arguments, written, rows)
    if options.figure is not None:
        from benchmarks.speed.chart import draw_chart  # matplotlib takes a second

        draw_chart(rows, options.figure)


def _settings(options: Options) -> dict[str, Any]:
    """The service's defaults; what the environment says of speculation does not count."""
    return {
        "model": options.model,
        "dtype": options.dtype,
        "speculation.method": "prompt_lookup",
        "speculation.placement": "pool",
        "engine.enable_prefix_caching": False,  # every method meets every prompt, and more than once
        **options.settings,
    }


def _measure_speed(
    options: Options,
    settings: dict[str, Any],
    questions: Mapping[str, Sequence[Question]],
    environment: dict[str, str],
    runs: int,
) -> _Measured:
    wait_as_the_service_does(settings)
    from benchmarks.speed.setup import open_bench  # loads torch, which reads the environment once

    with ExitStack() as resources:
        bench = open_bench(options, settings, questions, environment, resources)
        for method in bench.methods:  # the first request pays for buffers and caches
            method.run([mixed(bench.tasks, 1)[0].prompt])
        progress = resources.enter_context(tqdm(total=runs, unit="run", smoothing=0.05))
        return _Measured(_run_sections(options, bench, progress.update), bench.dtype)


def _run_sections(options: Options, bench: Bench, tick: Tick) -> list[Row]:
    served = [method for method in bench.methods if method.name != TRANSFORMERS]
    rows: list[Row] = []
    if options.asks_one_by_one:
        methods = (
            bench.methods if tasks.SECTION in options.sections else (bench.methods[0], bench.methods[-1])
        )
        rows += _one_by_one(options, bench, methods, tick)
    if batch.SECTION in options.sections:
        asked = mixed(bench.tasks, max(options.concurrency))
        loads = batch.run_loads(asked, served, options.concurrency, options.repeats, tick)
        rows += batch.batch_rows(asked, loads, served, bench.comparer)
    if breakdown.SECTION in options.sections:
        asked = mixed(bench.tasks, max(breakdown.SIZES))
        rows += breakdown.breakdown_rows(breakdown.run_waves(asked, served, options.repeats, tick))
    if tau.SECTION in options.sections:
        rows += tau.measure_tau(bench.tasks, bench.wide, tick)
    return rows


def _one_by_one(options: Options, bench: Bench, methods: Sequence[Method], tick: Tick) -> list[Row]:
    """Every task, then all of them together."""
    trials = {
        task: tasks.ask_task(asked, methods, options.repeats, bench.comparer, tick)
        for task, asked in bench.tasks.items()
    }
    rows = [row for task, each in trials.items() for row in tasks.task_rows(task, each, methods)]
    first, *others = trials.values()
    for other in others:
        first = first.joined(other)
    return rows + tasks.task_rows(ALL_TASKS, first, methods)
