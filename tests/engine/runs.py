"""Running requests through an engine to their end, checking at every step what must hold at every step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from serving.engine.engine import Engine
from serving.types import FinishReason, GenerationRequest, SamplingParams, SpeculationStats, TokenLogprobs

Arrivals = Iterable[tuple[int, GenerationRequest]]
"""(step, request): added before that step."""


@dataclass
class Outcome:
    """All that came back of one request."""

    token_ids: tuple[int, ...] = ()
    reason: FinishReason | None = None
    error: str | None = None
    stats: SpeculationStats = field(default_factory=SpeculationStats)
    cached_tokens: int = 0
    deltas: int = 0
    logprobs: tuple[TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()


def request(
    name: str,
    prompt: Iterable[int],
    max_tokens: int = 24,
    output: tuple[int, ...] = (),
    choice: int = 0,
    salt: str | None = None,
    **params: object,
) -> GenerationRequest:
    """Greedy unless `params` says otherwise."""
    sampling = SamplingParams(max_tokens, **{"temperature": 0.0, **params})
    return GenerationRequest(name, tuple(prompt), sampling, choice, output, salt)


def run(
    engine: Engine,
    requests: Iterable[GenerationRequest] | None = None,
    *,
    arrivals: Arrivals = (),
    before_step: Callable[[int], None] = lambda step: None,
) -> dict[str, Outcome]:
    """Outcomes by request id. Leaves the engine idle and its blocks free."""
    coming = [(0, each) for each in requests or ()] + list(arrivals)
    outcomes = {each.request_id: Outcome() for _, each in coming}
    assert len(outcomes) == len(coming), "request ids repeat"
    step = 0
    while coming or engine.has_work:
        for _, each in [arrival for arrival in coming if arrival[0] <= step]:
            engine.add(each)
        coming = [arrival for arrival in coming if arrival[0] > step]
        before_step(step)
        take_step(engine, outcomes)
        step += 1
        assert step < 5000, "no end"
    assert all(outcome.reason is not None for outcome in outcomes.values())
    assert_idle(engine)
    return outcomes


def take_step(engine: Engine, outcomes: Mapping[str, Outcome]) -> None:
    """One step; every request has at most one delta, and none after its last."""
    deltas = engine.step()
    assert len({delta.request_id for delta in deltas}) == len(deltas)
    for delta in deltas:
        outcome = outcomes[delta.request_id]
        assert outcome.reason is None, "a delta after the final one"
        outcome.token_ids += delta.token_ids
        outcome.reason, outcome.error = delta.finish_reason, delta.error
        outcome.stats = delta.stats or outcome.stats
        assert outcome.deltas == 0 or delta.cached_tokens == outcome.cached_tokens
        outcome.cached_tokens = delta.cached_tokens
        outcome.deltas += 1
        outcome.logprobs += delta.logprobs
        outcome.prompt_logprobs += delta.prompt_logprobs
    engine.check_integrity()


def assert_idle(engine: Engine) -> None:
    """No work, and every block is free."""
    assert not engine.has_work
    assert engine.step() == []
    assert engine.scheduler.blocks.num_free == engine.scheduler.blocks.num_blocks
    engine.check_integrity()
