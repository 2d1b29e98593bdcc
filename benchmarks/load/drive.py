"""Driving one engine under load: clients that wait for their answers, and arrivals that do not."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.answers import Prompt
from benchmarks.errors import BenchmarkError
from serving.engine.engine import Engine
from serving.metrics import StepReport
from serving.types import FinishReason, GenerationRequest, SamplingParams, TokenDelta

ENDS_WELL = (FinishReason.STOP, FinishReason.LENGTH)


@dataclass(frozen=True, slots=True)
class Work:
    """A prompt and how its answer is sampled."""

    prompt: Prompt
    params: SamplingParams
    priority: int = 0


@dataclass(slots=True)
class Record:
    """One run. outputs[i], latencies_s[i]: the i-th request's tokens, and seconds from arrival to end.

    full_tokens were committed in the first full_s seconds, until the last request was sent.
    """

    outputs: list[list[int]]
    latencies_s: list[float]
    steps: list[StepReport] = field(default_factory=list)
    full_tokens: int = 0
    full_s: float = 0.0

    @property
    def tokens_per_s(self) -> float:
        return self.full_tokens / self.full_s


class Driver:
    """Steps an engine that nobody else uses."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._ids = itertools.count()

    def closed(self, works: Sequence[Work], concurrency: int) -> Record:
        """That many requests under way until all works are sent; the rate is that of this time."""
        return _Run(self.engine, works, self._ids).until_done(
            lambda run: time.perf_counter() if run.under_way < concurrency else None
        )

    def open(self, works: Sequence[Work], rate: float, seed: int) -> Record:
        """Poisson arrivals, `rate` a second, whatever is unanswered."""
        gaps = np.random.default_rng(seed).exponential(1 / rate, len(works))
        began = time.perf_counter()
        due = (began + np.cumsum(gaps)).tolist()
        return _Run(self.engine, works, self._ids).until_done(lambda run: due[run.sent])


class _Run:
    def __init__(self, engine: Engine, works: Sequence[Work], ids: itertools.count[int]) -> None:
        assert not engine.has_work
        self._engine, self._works, self._ids = engine, works, ids
        self._began = time.perf_counter()
        self._arrived: list[float] = []
        self._place: dict[str, int] = {}
        self._record = Record([[] for _ in works], [0.0] * len(works))
        self.sent = self.ended = 0

    @property
    def under_way(self) -> int:
        return self.sent - self.ended

    def until_done(self, due: Callable[[_Run], float | None]) -> Record:
        """due: when the next request arrives; None: not before another has ended."""
        while self.ended < len(self._works):
            self._send_what_is(due)
            if not self._engine.has_work:
                at = due(self)
                assert at is not None
                time.sleep(max(0.0, at - time.perf_counter()))
                continue
            self._take(self._engine.step())
        return self._record

    def _send_what_is(self, due: Callable[[_Run], float | None]) -> None:
        while self.sent < len(self._works):
            at = due(self)
            if at is None or at > time.perf_counter():
                return
            work, name = self._works[self.sent], str(next(self._ids))
            self._place[name] = self.sent
            self._arrived.append(at)
            self._engine.add(GenerationRequest(name, work.prompt, work.params, priority=work.priority))
            self.sent += 1

    def _take(self, deltas: list[TokenDelta]) -> None:
        now, record = time.perf_counter(), self._record
        record.steps.append(self._engine.last_report)
        for delta in deltas:
            place = self._place[delta.request_id]
            record.outputs[place] += delta.token_ids
            if delta.finish_reason is not None:
                if delta.finish_reason not in ENDS_WELL:
                    raise BenchmarkError(f"a request ended with {delta.finish_reason}: {delta.error}")
                record.latencies_s[place] = now - self._arrived[place]
                self.ended += 1
        if self.sent < len(self._works) or not record.full_s:
            record.full_tokens += sum(len(delta.token_ids) for delta in deltas)
            record.full_s = now - self._began
