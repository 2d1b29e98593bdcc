"""`python -m benchmarks ablation`, from the options to the tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.ablation.estimate import estimate_s, measuring_s, training_s
from benchmarks.ablation.options import CALIBRATION, TREE, Options
from benchmarks.ablation.plan import Training, plan
from benchmarks.ablation.results import Results
from benchmarks.ablation.tables import print_calibration, print_heads, print_trees
from benchmarks.questions import read_questions
from benchmarks.waiting import wait_as_the_service_does

if TYPE_CHECKING:
    from benchmarks.ablation.asking import Questions


def run(options: Options, arguments: list[str]) -> None:
    """Raises BenchmarkError for wrong input, TrainingError, and what loading a model raises."""
    questions = {task: read_questions(options.questions, task)[: options.limit] for task in options.tasks}
    trainings = plan(options)
    minutes = estimate_s(options, trainings) / 60
    print(f"This takes about {minutes:.0f} min on two cores, unless some of it is there.", flush=True)
    if options.estimate:
        return
    wait_as_the_service_does(options.settings)
    results = Results(options.out, arguments)
    measured_by = _settings(options, questions)
    if TREE in options.part:
        print_trees(_trees(options, questions, results, measured_by))
    if CALIBRATION in options.part:
        _calibrate(options, results, measured_by)
    rows = _heads(options, trainings, questions, results, measured_by)
    for part in options.part:
        print_heads(part, rows)


def _trees(
    options: Options, questions: Questions, results: Results, measured_by: dict[str, Any]
) -> list[dict[str, Any]]:
    from benchmarks.ablation.trees import measure  # torch reads the environment once

    settings = measured_by | {"head": options.head, "beam": list(options.beam), "depth": options.depth}
    found = results.find(TREE, settings)
    return found or results.keep(TREE, settings, measure(questions, options))


def _calibrate(options: Options, results: Results, measured_by: dict[str, Any]) -> None:
    from benchmarks.ablation.confidence import measure  # torch reads the environment once

    settings = measured_by | {"head": options.head, "beam": max(options.beam), "depth": options.depth}
    found = results.find(CALIBRATION, settings)
    print_calibration(found or results.keep(CALIBRATION, settings, measure(options)))


def _heads(
    options: Options,
    trainings: Sequence[Training],
    questions: Questions,
    results: Results,
    measured_by: dict[str, Any],
) -> dict[str, dict[str, Any]]:
    """Rows by name. Each head is measured as soon as it is trained."""
    from benchmarks.ablation.heads import measure  # torch reads the environment once
    from benchmarks.ablation.trainings import recipe, train

    rows: dict[str, dict[str, Any]] = {}
    for number, training in enumerate(trainings):
        left = sum(training_s(each) + measuring_s(options) for each in trainings[number:]) / 60
        settings = measured_by | {
            "num_speculative_tokens": options.num_speculative_tokens,
            "held_out_conversations": options.held_out_conversations,
            "fused": training.fused,
            "recipe": recipe(training, options),
        }
        found = results.find(f"head-{training.name}", settings)
        if found is None:
            print(f"{training.name}, {number + 1} of {len(trainings)}; about {left:.0f} min left", flush=True)
            row = measure(training, train(training, options), questions, options)
            found = results.keep(f"head-{training.name}", settings, [row])
        (rows[training.name],) = found
    return rows


def _settings(options: Options, questions: Questions) -> dict[str, Any]:
    """What every result depends on, besides its own."""
    return {
        "model": options.model,
        "dtype": options.dtype,
        "set": list(options.set),
        "tasks": list(options.tasks),
        "questions": _digest(questions),
        "limit": options.limit,
        "max_tokens": options.max_tokens,
    }


def _digest(questions: Questions) -> str:
    text = json.dumps([[task, question.turns] for task, own in questions.items() for question in own])
    return hashlib.sha256(text.encode()).hexdigest()[:12]
