"""The same questions for everything that drafts, answered greedily: the text is the same, tau is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tqdm import tqdm

from benchmarks.ablation.options import Options
from benchmarks.answers import Answer
from benchmarks.asked import Asked, ask
from benchmarks.errors import BenchmarkError
from benchmarks.in_process import InProcess
from benchmarks.questions import Question
from benchmarks.stats import Pooled
from serving.router.model import ServedModel
from serving.types import SpeculationStats

Questions = Mapping[str, Sequence[Question]]


class Taus(NamedTuple):
    """One entry per question. parts: committed tokens and verifications. answers: token ids."""

    tasks: tuple[str, ...]
    parts: tuple[Pooled, ...]
    answers: tuple[tuple[int, ...] | None, ...]
    total: SpeculationStats

    def as_json(self) -> dict[str, Any]:
        """accepted_by_depth[d]: share of verifications that accepted a draft token of depth d + 1."""
        total, depths = self.total, len(self.total.offered_per_position)
        return {
            "verifications": total.steps,
            "draft_tokens": total.draft_tokens,
            "tau_by_task": {task: self._tau(task) for task in dict.fromkeys(self.tasks)},
            "accepted_by_depth": [total.accepted_at(depth) / total.steps for depth in range(depths)],
            "per_question": [list(part) for part in self.parts],
        }

    def _tau(self, task: str) -> float:
        own = [part for name, part in zip(self.tasks, self.parts, strict=True) if name == task]
        return sum(part.above for part in own) / sum(part.below for part in own)


def answer(system: InProcess, questions: Questions, options: Options, what: str) -> Taus:
    """First turns, one after the other. Raises BenchmarkError where an answer is too short to draft in."""
    served = ServedModel(system.engine.card())
    asked = [each for task, own in questions.items() for each in ask(task, own, served, options.max_tokens)]
    answers = [_answer(system, each) for each in tqdm(asked, unit="question", desc=what, leave=False)]
    total = SpeculationStats()
    for each in answers:
        total.add(_counted(each))
    parts = [Pooled(_counted(each).committed_tokens, _counted(each).steps) for each in answers]
    return Taus(
        tuple(each.task for each in asked), tuple(parts), tuple(each.token_ids for each in answers), total
    )


def _answer(system: InProcess, asked: Asked) -> Answer:
    (answered,) = system.run([asked.prompt], None).answers
    if not _counted(answered).steps:
        raise BenchmarkError(f"{asked.task}, question {asked.question_id}: too short an answer to draft in")
    return answered


def _counted(answered: Answer) -> SpeculationStats:
    assert answered.stats is not None
    return answered.stats
