"""A request whose verifier is lost goes on elsewhere, and its client sees one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from http_harness import CARD, ScriptedVerifier

from serving.config import RouterConfig
from serving.errors import (
    CanopyError,
    GenerationError,
    MigratedError,
    ModelReplacedError,
    OverloadedError,
    UnavailableError,
    VerifierLostError,
)
from serving.metrics import REGISTRY, RouterMetrics
from serving.router.replay import Replaying
from serving.types import FinishReason, GenerationRequest, SamplingParams, SpeculationStats, TokenDelta

TEXT = tuple(range(100, 112))
LOST = VerifierLostError("lost")
RESTARTING = UnavailableError("restarting")
FULL = OverloadedError("full")
GOING = MigratedError("going")
METRICS = RouterMetrics("replayed")
REQUEST = GenerationRequest("r", (1, 2, 3), SamplingParams(max_tokens=len(TEXT), seed=5))


class Verifiers(ScriptedVerifier):
    """Says TEXT from where the request is, two tokens at a time. Its tries end as `ends` says, with an error
    after so many deltas; those that come after end well."""

    def __init__(self, *ends: tuple[int, Exception]) -> None:
        super().__init__(script=self._say)
        self._ends = list(ends)

    def _say(self, request: GenerationRequest) -> Iterator[Any]:
        deltas, error = self._ends.pop(0) if self._ends else (len(TEXT), None)
        stats = SpeculationStats()
        for at in range(len(request.output_ids), len(TEXT), 2)[:deltas]:
            stats.record(3, 1, 2, 1)
            last = at + 2 == len(TEXT)
            yield TokenDelta(
                request.request_id,
                TEXT[at : at + 2],
                FinishReason.LENGTH if last else None,
                stats=replace(stats),
                cached_tokens=len(request.output_ids),
                fingerprint=CARD.fingerprint,
            )
        if error is not None:
            yield error


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited before each try but the first; by a clock that nothing but waiting moves."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr("serving.router.replay.asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr("serving.router.replay.monotonic", lambda: 1000 + sum(pauses))
    return pauses


async def answer(verifiers: Verifiers, **settings: Any) -> list[TokenDelta]:
    backend = Replaying(verifiers, RouterConfig(**settings), METRICS)
    return [delta async for delta in backend.generate(REQUEST)]


def said(deltas: list[TokenDelta]) -> tuple[int, ...]:
    return tuple(token for delta in deltas for token in delta.token_ids)


async def test_undisturbed_it_is_passed_on() -> None:
    verifiers = Verifiers()
    deltas = await answer(verifiers)
    assert said(deltas) == TEXT
    assert verifiers.requests == [REQUEST]


async def test_another_verifier_goes_on_where_the_first_was_lost() -> None:
    verifiers = Verifiers((2, LOST), (0, RESTARTING), (3, LOST), (0, FULL))
    deltas = await answer(verifiers)
    assert said(deltas) == TEXT
    assert [delta.finish_reason for delta in deltas if delta.finish_reason] == [FinishReason.LENGTH]
    assert [len(request.output_ids) for request in verifiers.requests] == [0, 4, 4, 10, 10]
    assert verifiers.requests[-1].output_ids == TEXT[:10]
    assert {(r.prompt_ids, r.params) for r in verifiers.requests} == {(REQUEST.prompt_ids, REQUEST.params)}


async def test_it_goes_on_with_the_model_that_began() -> None:
    verifiers = Verifiers((1, LOST))
    await answer(verifiers)
    assert [request.fingerprint for request in verifiers.requests] == [None, CARD.fingerprint]


async def test_a_request_lost_before_its_first_token_starts_again() -> None:
    verifiers = Verifiers((0, LOST))
    assert said(await answer(verifiers)) == TEXT
    assert verifiers.requests == [REQUEST, REQUEST]


async def test_counts_are_those_of_the_whole_answer() -> None:
    deltas = await answer(Verifiers((2, LOST), (1, LOST)))
    steps = [delta.stats.steps for delta in deltas if delta.stats]
    assert steps == [1, 2, 3, 4, 5, 6]
    assert {delta.cached_tokens for delta in deltas} == {0}


async def test_too_many_losses_are_the_clients_to_know() -> None:
    verifiers = Verifiers(*[(1, LOST)] * 3)
    with pytest.raises(VerifierLostError):
        await answer(verifiers, max_replays=2)
    assert len(verifiers.requests) == 3


async def test_a_request_that_is_handed_back_has_lost_nothing() -> None:
    """However often: new ones too, where a router has not heard yet that the verifier is to go."""
    before = [replays(reason) for reason in ("lost", "migrated")]
    verifiers = Verifiers((0, GOING), (0, GOING), (2, GOING), (1, LOST), (1, GOING))
    assert said(await answer(verifiers, max_replays=1)) == TEXT
    assert [len(request.output_ids) for request in verifiers.requests] == [0, 0, 0, 4, 6, 8]
    assert [replays(reason) for reason in ("lost", "migrated")] == [before[0] + 1, before[1] + 4]


def replays(reason: str) -> float:
    labels = {"model_name": "replayed", "reason": reason}
    return REGISTRY.get_sample_value("canopy:replays_total", labels) or 0.0


async def test_where_only_another_model_is_left_it_says_so() -> None:
    replaced = ModelReplacedError("another model")
    with pytest.raises(ModelReplacedError):
        await answer(Verifiers((1, GOING), *[(0, replaced)] * 100), replay_wait_s=0.3)


async def test_it_does_not_wait_for_ever(pauses: list[float]) -> None:
    verifiers = Verifiers((1, LOST), *[(0, RESTARTING)] * 100)
    with pytest.raises(UnavailableError, match="restarting"):
        await answer(verifiers, replay_wait_s=1.0)
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert len(verifiers.requests) == 5


@pytest.mark.parametrize("error", [RESTARTING, FULL, GenerationError("the engine failed")])
async def test_what_is_no_loss_is_not_replayed(error: CanopyError) -> None:
    """But counted, where it is a request that was sent away."""
    rejected = {"model_name": "replayed", "reason": error.code}
    before = REGISTRY.get_sample_value("canopy:requests_rejected_total", rejected) or 0
    verifiers = Verifiers((0, error))
    with pytest.raises(type(error)):
        await answer(verifiers)
    assert len(verifiers.requests) == 1
    after = REGISTRY.get_sample_value("canopy:requests_rejected_total", rejected) or 0
    assert after - before == isinstance(error, UnavailableError | OverloadedError)


async def test_a_client_that_leaves_ends_it() -> None:
    verifiers = Verifiers((1, LOST))
    deltas = Replaying(verifiers, RouterConfig(), METRICS).generate(REQUEST)
    for _ in range(3):
        await anext(deltas)
    await deltas.aclose()
    assert verifiers.aborted == ["r"]
