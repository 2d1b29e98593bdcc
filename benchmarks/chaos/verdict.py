"""Whether answers given while something died are those of an undisturbed service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

from benchmarks.chaos.load import Answered
from benchmarks.chaos.replies import Reply, Said


class Difference(NamedTuple):
    """Where an answer parts from the undisturbed one. choice, character: the first other one.

    margin: how far the undisturbed answer's two likeliest tokens were apart there, in log-probability; None
    where it was not asked for log-probabilities.
    """

    request: int
    choice: int
    character: int
    margin: float | None
    expected: str
    got: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of `total` requests. failures: why some have no whole answer. retries: by clients that ask again."""

    total: int
    failures: tuple[str, ...]
    differences: tuple[Difference, ...]
    retries: int

    @property
    def complete(self) -> float:
        return 1 - len(self.failures) / self.total

    @property
    def identical(self) -> float:
        """Share of all requests, so of those without an answer too."""
        return 1 - (len(self.failures) + len(self.differences)) / self.total

    @property
    def passed(self) -> bool:
        return not self.failures and not self.differences

    def as_json(self) -> dict[str, Any]:
        return {
            "requests": self.total,
            "complete": self.complete,
            "failures": list(self.failures),
            "differences": [difference._asdict() for difference in self.differences],
            "retries": self.retries,
        }


def judge(answers: Sequence[Answered], undisturbed: Sequence[Reply]) -> Verdict:
    """undisturbed[i]: the answer to the i-th request when nothing died."""
    failures, differences = [], []
    for answer in answers:
        if answer.reply.error is not None:
            failures.append(f"request {answer.place}: {answer.reply.error}")
            continue
        for reply in answer.replies:
            difference = _difference(answer.place, reply, undisturbed[answer.place])
            if difference is not None:
                differences.append(difference)
                break
    retries = sum(len(answer.replies) - 1 for answer in answers)
    return Verdict(len(answers), tuple(failures), tuple(differences), retries)


def _difference(place: int, reply: Reply, undisturbed: Reply) -> Difference | None:
    """Of an answer that was broken off, what there is of it must be how the undisturbed one begins."""
    expected, got = undisturbed.said, reply.said
    if reply.complete and expected == got:
        return None
    for choice, (whole, text) in enumerate(zip(expected.texts, got.texts, strict=True)):
        compared = whole if reply.complete else whole[: len(text)]
        if compared != text:
            return _parting(place, choice, expected, whole, text)
    if not reply.complete:
        return None
    return Difference(place, 0, len(expected.texts[0]), None, str(expected[1:]), str(got[1:]))


def _parting(place: int, choice: int, expected: Said, whole: str, text: str) -> Difference:
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(whole, text, strict=False)))
    margin = _margin(expected.logprobs[choice], same)
    return Difference(place, choice, same, margin, whole[same : same + 20], text[same : same + 20])


def _margin(logprobs: Sequence[Any], character: int) -> float | None:
    """logprobs: of the tokens of a choice, (token, {token: log-probability} of the likeliest)."""
    read = 0
    for token, likeliest in logprobs:
        read += len(token)
        if read > character:
            second, best = sorted(likeliest.values())[-2:]
            return float(best - second)
    return None
