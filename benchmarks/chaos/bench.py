"""What every scenario works with, and what it comes to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, ParamSpec, TypeVar

from benchmarks.chaos.asks import Ask
from benchmarks.chaos.load import Answered, Load
from benchmarks.chaos.options import ChaosOptions
from benchmarks.chaos.replies import Reply
from benchmarks.chaos.service import Service
from benchmarks.chaos.verdict import Verdict, judge

Given = ParamSpec("Given")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Result:
    """figures: what was measured, for the report. troubles: what should not have been, in words; a verdict's
    failures and differences are others."""

    scenario: str
    verdict: Verdict | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    troubles: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.troubles and (self.verdict is None or self.verdict.passed)


class Progress:
    """Of the clients, for what disturbs them."""

    def __init__(self, requests: int) -> None:
        self._requests = requests
        self._answered = asyncio.Event()
        self.answers: list[Answered] = []

    @property
    def over(self) -> bool:
        """As many answers have come as there are requests."""
        return len(self.answers) >= self._requests

    async def more(self, answers: int) -> None:
        """Until that many more have come, or all have."""
        wanted = len(self.answers) + answers
        while len(self.answers) < wanted and not self.over:
            self._answered.clear()
            await self._answered.wait()

    def take(self, answer: Answered) -> None:
        self.answers.append(answer)
        self._answered.set()


class Disturbed(NamedTuple):
    """What the clients got meanwhile, how it compares with what they should get, and what the disturbance has
    to tell."""

    answers: list[Answered]
    verdict: Verdict
    told: Any


@dataclass(frozen=True, slots=True)
class Bench:
    """undisturbed[i]: the answer to asks[i] when nothing died. tick: called after every answer."""

    service: Service
    options: ChaosOptions
    asks: Sequence[Ask]
    undisturbed: Sequence[Reply]
    tick: Callable[[], object]

    async def disturbed(
        self, disturbance: Callable[[Progress], Awaitable[Any]], *, insist: bool = False
    ) -> Disturbed:
        """All requests, and more of them as long as `disturbance` goes on."""
        progress = Progress(len(self.asks))

        def take(answer: Answered) -> None:
            progress.take(answer)
            self.tick()

        load = Load(self.service.url, self.asks, self.options.concurrency, take, insist=insist)
        told = await load.during(disturbance(progress))
        return Disturbed(progress.answers, judge(progress.answers, self.undisturbed), told)


async def aside(job: Callable[Given, Found], *args: Given.args, **named: Given.kwargs) -> Found:
    """In a thread: the clients go on meanwhile."""
    return await asyncio.to_thread(job, *args, **named)
