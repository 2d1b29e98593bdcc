"""The engine alone, driven from this process: no Ray, no HTTP; drafts are made between its steps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

from benchmarks.answers import Answer, Prompt, Snapshot, Wave, Window
from benchmarks.errors import BenchmarkError
from serving.config import ServeConfig
from serving.drafting.base import Drafter
from serving.drafting.colocated import ColocatedChannel
from serving.engine.build import build_engine
from serving.models.ranks import Ranks
from serving.replicas.drafters import build_drafter
from serving.router.tokenizer import Tokenizer
from serving.types import FinishReason, GenerationRequest, SamplingParams, SpeculationStats, TokenDelta

GREEDY: Mapping[str, Any] = {"temperature": 0.0}


class InProcess:
    """A System. Raises what building an engine raises.

    ranks: where there are several (`local_ranks`). drafter: None: the one that the configuration asks for.
    """

    def __init__(
        self,
        config: ServeConfig,
        max_tokens: int,
        ranks: Ranks | None = None,
        drafter: Drafter | None = None,
    ) -> None:
        channel = ColocatedChannel(drafter or build_drafter(config))
        self.engine = build_engine(config, channel, incarnation="benchmark", ranks=ranks)
        card = self.engine.card()
        self._tokenizer = Tokenizer(card.tokenizer_json)
        self._eos = frozenset(card.eos_token_ids)
        self._max_tokens = max_tokens
        self._ids = itertools.count()

    def run(
        self,
        prompts: Sequence[Prompt],
        num_speculative_tokens: int | None,
        sampling: Mapping[str, Any] = GREEDY,
    ) -> Wave:
        """sampling: fields of SamplingParams; other `max_tokens` than this system's may be among them."""
        params = SamplingParams(
            **{"max_tokens": self._max_tokens, **sampling},
            stop_token_ids=self._eos,
            num_speculative_tokens=num_speculative_tokens,
        )
        requests = [GenerationRequest(str(next(self._ids)), prompt, params) for prompt in prompts]
        wave = _Wave(perf_counter(), {request.request_id: _Output() for request in requests})
        for request in requests:
            self.engine.add(request)
        while self.engine.has_work:
            deltas = self.engine.step()
            wave.take(deltas, Snapshot(perf_counter(), asdict(self.engine.stats)))
        self.engine.check_integrity()
        return Wave(tuple(self._answer(output) for output in wave.outputs.values()), wave.window)

    def _answer(self, output: _Output) -> Answer:
        ids = tuple(output.token_ids)
        text = self._tokenizer.decode(ids)
        return Answer(text, ids, len(ids), output.first_s, output.last_s, output.stats)


@dataclass(slots=True)
class _Output:
    token_ids: list[int] = field(default_factory=list)
    first_s: float = 0.0
    last_s: float = 0.0
    stats: SpeculationStats | None = None
    ended: bool = False


@dataclass(slots=True)
class _Wave:
    start: float
    outputs: dict[str, _Output]
    opened: Snapshot | None = None
    window: Window | None = None

    def take(self, deltas: list[TokenDelta], now: Snapshot) -> None:
        for delta in deltas:
            self._take(delta, now.at - self.start)
        outputs = self.outputs.values()
        ended = any(output.ended for output in outputs)
        if self.opened is not None and self.window is None and ended:
            self.window = Window.between(self.opened, now)
        if self.opened is None and not ended and all(output.token_ids for output in outputs):
            self.opened = now

    def _take(self, delta: TokenDelta, seconds: float) -> None:
        if delta.finish_reason in (FinishReason.ERROR, FinishReason.ABORT):
            raise BenchmarkError(f"the engine ended a request: {delta.error}")
        output = self.outputs[delta.request_id]
        if delta.token_ids and not output.token_ids:
            output.first_s = seconds
        output.token_ids.extend(delta.token_ids)
        output.last_s = seconds
        if delta.finish_reason is not None:
            output.stats, output.ended = delta.stats, True
