"""Asks a question in all its turns of all methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.answers import Answer
from benchmarks.asked import Asked, ask_turn
from benchmarks.evaluate.bench import Bench
from benchmarks.evaluate.trials import Place, Trial
from benchmarks.machine import commit
from benchmarks.questions import Question
from benchmarks.rotation import rotated
from benchmarks.speed.methods import PLAIN


@dataclass(frozen=True, slots=True)
class Job:
    """A question to be asked at a temperature. index: its number in the task, and its seed."""

    place: Place
    question: Question
    index: int

    @property
    def sampling(self) -> dict[str, Any]:
        return {"temperature": self.place.temperature, "seed": self.index}


def ask(job: Job, bench: Bench, tick: Callable[[], object]) -> list[Trial]:
    """A trial of every method. `tick` is called after every answer.

    In each turn the methods take turns at being first. What a later turn looks back on is plain decoding's
    answer, so that all methods read the same.
    """
    names = [method.name for method in bench.methods]
    asked: list[Asked] = []
    answers: dict[str, list[Answer]] = {name: [] for name in names}
    for turn in range(len(job.question.turns)):
        said = [answer.text for answer in answers[PLAIN]]
        asked.append(ask_turn(job.place.task, job.question, said, bench.served, bench.options.max_tokens))
        for name in rotated(names, job.index + turn):
            answers[name].append(bench.answer(name, asked[-1].prompt, job.sampling))
            tick()
    comparer = bench.comparer(job.place.temperature, job.index)
    measured_by = commit()
    return [
        Trial.of(job.place, name, each, comparer.compare(asked, each, answers[PLAIN]), measured_by)
        for name, each in answers.items()
    ]
