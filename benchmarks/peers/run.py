"""`python -m benchmarks peers`, from the options to the table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tqdm import tqdm

from benchmarks.peers.methods import DRAFTS_FOR_ONE, LEGEND
from benchmarks.peers.options import Options
from benchmarks.questions import read_questions
from benchmarks.report import write_report
from benchmarks.rotation import rotated
from benchmarks.waiting import wait_as_the_service_does

if TYPE_CHECKING:
    from benchmarks.answers import Method, Prompt, Wave


def run(options: Options, arguments: list[str]) -> None:
    """Raises BenchmarkError for wrong input and systems that fail, and what loading a model raises."""
    questions = {task: read_questions(options.questions, task) for task in options.tasks}
    wait_as_the_service_does(options.settings)
    from benchmarks.asked import ask, mixed  # torch reads the environment once
    from benchmarks.peers.rows import rows
    from benchmarks.peers.systems import Systems
    from benchmarks.peers.tables import print_tables
    from benchmarks.target import Target
    from serving.config import ServeConfig
    from serving.router.model import ServedModel

    target = Target.of(ServeConfig.load(options.settings))
    served = ServedModel(target.card)
    asked = {task: ask(task, each, served, options.max_tokens) for task, each in questions.items()}
    prompts = [each.prompt for each in mixed(asked, options.repeats * max(options.batch))]
    with ExitStack() as resources:
        systems = Systems(options, target, resources)
        systems.open(prompts[0])
        for method in systems.methods:  # the first request pays for buffers
            method.run(prompts[:1])
        waves = _run_batches(options, systems.methods, prompts)
    made = rows(waves, systems.methods, options.batch)
    print_tables(made, systems.notes, f"{target.dtype}, {target.threads} threads")
    if options.json is not None:
        legend = {method.name: LEGEND[method.name] for method in systems.methods}
        conditions = {"dtype": target.dtype, "threads": target.threads}
        settings = {**options.as_json(), **conditions, "legend": legend, "notes": systems.notes}
        write_report(options.json, arguments, settings, made)


def _takes_part(method: Method, size: int) -> bool:
    return size == 1 or method.name not in DRAFTS_FOR_ONE


def _run_batches(
    options: Options, methods: Sequence[Method], prompts: Sequence[Prompt]
) -> dict[tuple[str, int], list[Wave]]:
    """Every batch by every system in turn; a batch of a repeat has prompts that no other repeat has."""
    turns = [
        (method, size, prompts[repeat * max(options.batch) :][:size])
        for repeat in range(options.repeats)
        for place, size in enumerate(options.batch)
        for method in rotated(methods, repeat + place)
        if _takes_part(method, size)
    ]
    waves: dict[tuple[str, int], list[Wave]] = {}
    for method, size, batch in tqdm(turns, unit="batch"):
        waves.setdefault((method.name, size), []).append(method.run(batch))
    return waves
