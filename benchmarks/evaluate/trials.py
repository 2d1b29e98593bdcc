"""What is measured: a question in all its turns, answered by one method at one temperature."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from benchmarks.answers import Answer, total_stats
from benchmarks.identity import Difference, Outcome
from benchmarks.questions import Question
from serving.types import SpeculationStats


class Place(NamedTuple):
    """A question at a temperature. digest: of its text, so that another text is another question."""

    task: str
    question_id: int | str
    digest: str
    temperature: float

    @classmethod
    def of(cls, task: str, question: Question, temperature: float) -> Place:
        text = json.dumps(question.turns).encode()
        return cls(task, question.question_id, hashlib.sha256(text).hexdigest()[:12], temperature)


@dataclass(frozen=True, slots=True)
class Job:
    """A question to be asked at a temperature. index: its number in the task, and its seed."""

    place: Place
    question: Question
    index: int

    @property
    def num_turns(self) -> int:
        return len(self.question.turns)

    @property
    def sampling(self) -> dict[str, Any]:
        return {"temperature": self.place.temperature, "seed": self.index}


@dataclass(frozen=True, slots=True)
class Trial:
    """Sums over the question's turns. first_s: until the first tokens; seconds: until the last.

    differences: turns in which the answer is not plain decoding's. commit: of the code that measured it.
    """

    place: Place
    method: str
    turns: int
    tokens: int
    first_s: float
    seconds: float
    stats: SpeculationStats
    differences: tuple[Difference, ...]
    commit: str | None

    @classmethod
    def of(
        cls, place: Place, method: str, answers: Sequence[Answer], outcome: Outcome, commit: str | None
    ) -> Trial:
        return cls(
            place,
            method,
            len(answers),
            sum(answer.num_tokens for answer in answers),
            sum(answer.first_s for answer in answers),
            sum(answer.last_s for answer in answers),
            total_stats(answers),
            outcome.differences,
            commit,
        )

    @property
    def tokens_per_s(self) -> float:
        """Prefill included."""
        return self.tokens / self.seconds

    @property
    def decode_tokens_per_s(self) -> float | None:
        """From the first tokens on; None where there are no others."""
        if self.tokens == self.turns:
            return None
        return (self.tokens - self.turns) / (self.seconds - self.first_s)

    @property
    def outcome(self) -> Outcome:
        return Outcome(self.turns, self.differences)

    def as_json(self) -> dict[str, Any]:
        written = asdict(self)
        return {**written.pop("place")._asdict(), **written}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Trial:
        place = Place(*(fields.pop(name) for name in Place._fields))
        stats = SpeculationStats(**fields.pop("stats"))
        differences = tuple(Difference(**each) for each in fields.pop("differences"))
        return cls(place=place, stats=stats, differences=differences, **fields)
