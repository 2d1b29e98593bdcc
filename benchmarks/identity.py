"""Whether every method says what plain decoding says, and how near a miss was where it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.answers import Answer, Prompt
from benchmarks.asked import Asked
from benchmarks.compare import Decode, first_difference, same

# A difference where plain's two best logits are further apart than this is a fault, not rounding.
FAULT_MARGIN = 1e-3


@dataclass(frozen=True, slots=True)
class Difference:
    """Where an answer parts from plain's: index of the first other token, and plain's margin there.

    turn: of the question, from 1. Position and margin are None where plain's tokens are not known.
    """

    task: str
    question_id: int | str
    position: int | None
    margin: float | None
    turn: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of comparing `total` answers."""

    total: int
    differences: tuple[Difference, ...]

    @property
    def share(self) -> float:
        """Of answers that are the same."""
        return 1 - len(self.differences) / self.total

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(self.total + other.total, self.differences + other.differences)

    def as_json(self) -> dict[str, Any]:
        return {"compared": self.total, "differences": [asdict(d) for d in self.differences]}


@dataclass(frozen=True, slots=True)
class Comparer:
    """margin: how far plain's two best logits are apart after a prefix; None: there is no engine to ask."""

    decode: Decode
    margin: Callable[[Prompt], float] | None

    def compare(self, asked: Sequence[Asked], answers: Sequence[Answer], plain: Sequence[Answer]) -> Outcome:
        """answers[i] with plain[i], both to asked[i]."""
        triples = list(zip(asked, answers, plain, strict=True))
        differences = (self._difference(*triple) for triple in triples if not same(triple[1], triple[2]))
        return Outcome(len(triples), tuple(differences))

    def _difference(self, asked: Asked, answer: Answer, plain: Answer) -> Difference:
        if plain.token_ids is None or self.margin is None:
            return Difference(asked.task, asked.question_id, None, None, asked.turn)
        position = first_difference(answer, plain, self.decode)
        margin = self.margin(asked.prompt + plain.token_ids[:position])
        return Difference(asked.task, asked.question_id, position, margin, asked.turn)
