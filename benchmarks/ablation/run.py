"""`python -m benchmarks ablation`, from the options to the tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.ablation.estimate import estimate_s, measuring_s, training_s
from benchmarks.ablation.options import CALIBRATION, TREE, Options
from benchmarks.ablation.plan import Training, plan
from benchmarks.ablation.results import Results
from benchmarks.ablation.tables import print_calibration, print_heads, print_trees
from benchmarks.questions import Question, read_questions
from benchmarks.report import Row
from benchmarks.waiting import wait_as_the_service_does

Questions = Mapping[str, Sequence[Question]]
ReadRow = dict[str, Any]


def run(options: Options, arguments: list[str]) -> None:
    """Raises BenchmarkError for wrong input, TrainingError, and what loading a model raises."""
    questions = {task: read_questions(options.questions, task)[: options.limit] for task in options.tasks}
    trainings = plan(options)
    minutes = estimate_s(options, trainings) / 60
    print(f"This takes about {minutes:.0f} min on two cores, unless some of it is there.", flush=True)
    if options.estimate:
        return
    wait_as_the_service_does(options.settings)
    parts = _Parts(options, questions, Results(options.out, arguments), _settings(options, questions))
    if TREE in options.part:
        print_trees(parts.trees())
    if CALIBRATION in options.part:
        print_calibration(parts.calibration())
    rows = parts.heads(trainings)
    for part in options.part:
        print_heads(part, rows)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Rows of each part, as they were found or have now been measured. Imports torch only where it is needed.

    measured_by: what every result depends on.
    """

    options: Options
    questions: Questions
    results: Results
    measured_by: dict[str, Any]

    def trees(self) -> list[ReadRow]:
        from benchmarks.ablation.trees import measure

        sizes = {"beam": list(self.options.beam), "depth": self.options.depth}
        settings = {"head": self.options.head, **sizes}
        return self._get(TREE, settings, lambda: measure(self.questions, self.options))

    def calibration(self) -> list[ReadRow]:
        from benchmarks.ablation.confidence import measure

        sizes = {"beam": max(self.options.beam), "depth": self.options.depth}
        settings = {"head": self.options.head, **sizes}
        return self._get(CALIBRATION, settings, lambda: measure(self.options))

    def heads(self, trainings: Sequence[Training]) -> dict[str, ReadRow]:
        """By name. Each head is measured as soon as it is trained."""
        rows = {}
        for number, training in enumerate(trainings):
            left = sum(training_s(each) + measuring_s(self.options) for each in trainings[number:]) / 60
            place = f"{training.name}, {number + 1} of {len(trainings)}; about {left:.0f} min left"
            (rows[training.name],) = self._head(training, place)
        return rows

    def _head(self, training: Training, place: str) -> list[ReadRow]:
        from benchmarks.ablation.heads import measure
        from benchmarks.ablation.trainings import recipe, train

        def trained() -> list[Row]:
            print(place, flush=True)
            return [measure(training, train(training, self.options), self.questions, self.options)]

        settings = {
            "num_speculative_tokens": self.options.num_speculative_tokens,
            "held_out_conversations": self.options.held_out_conversations,
            "fused": training.fused,
            "recipe": recipe(training, self.options),
        }
        return self._get(f"head-{training.name}", settings, trained)

    def _get(self, name: str, settings: dict[str, Any], measure: Callable[[], list[Row]]) -> list[ReadRow]:
        settings = self.measured_by | settings
        found = self.results.find(name, settings)
        return self.results.keep(name, settings, measure()) if found is None else found


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
