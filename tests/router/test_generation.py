"""Several choices at once."""

from __future__ import annotations

import asyncio
from time import perf_counter

import frames
import pytest
from http_harness import CARD, FOREVER_S, Event, ScriptedVerifier, says

from serving.errors import GenerationError
from serving.metrics import RouterMetrics
from serving.router.choice import Choice
from serving.router.generation import Generation
from serving.router.model import ServedModel
from serving.types import GenerationRequest, SamplingParams

MODEL = ServedModel(CARD)
METRICS = RouterMetrics("generation-test")


def generation(verifier: ScriptedVerifier, n: int) -> Generation:
    params = SamplingParams(max_tokens=50, stop_token_ids=frozenset(CARD.eos_token_ids))
    choices = [
        Choice(GenerationRequest(f"r-{i}", (1,), params, choice_index=i), i, MODEL.detokenizer(), ())
        for i in range(n)
    ]
    return Generation(verifier, choices, METRICS, perf_counter())


async def test_choices_run_concurrently_and_stay_apart() -> None:
    words = ["the quick brown fox", "a light draft head", "over the lazy dog"]
    verifier = ScriptedVerifier(
        script=lambda request: says(words[request.choice_index], pause=0.02)(request),
    )
    running = generation(verifier, 3)
    texts, order = ["", "", ""], []
    async for piece in running.pieces():
        texts[piece.choice] += piece.text
        order.append(piece.choice)
    assert texts == words
    assert order != sorted(order), "pieces of different choices must interleave"
    assert verifier.aborted == []
    assert running.completion_tokens == sum(len(choice.token_ids) for choice in running.choices)
    assert running.stats is not None
    assert running.stats.committed_tokens == running.completion_tokens
    assert running.seconds_to_first_token is not None


@pytest.mark.parametrize("n", [1, 3])
async def test_closing_aborts_every_choice(n: int) -> None:
    verifier = ScriptedVerifier(script=says("the quick brown fox", pause=0.01))
    pieces = generation(verifier, n).pieces()
    await anext(pieces)
    await pieces.aclose()
    assert sorted(verifier.aborted) == [f"r-{i}" for i in range(n)]


@pytest.mark.parametrize("n", [1, 3])
async def test_cancelling_aborts_every_choice(n: int) -> None:
    asked = asyncio.Event()

    def script(_: GenerationRequest) -> list[Event]:
        if len(verifier.requests) == n:
            asked.set()
        return [FOREVER_S]

    verifier = ScriptedVerifier(script=script)

    async def consume() -> None:
        async for _ in generation(verifier, n).pieces():
            pass

    task = asyncio.create_task(consume())
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(verifier.aborted) == [f"r-{i}" for i in range(n)]


async def test_one_failure_ends_all() -> None:
    def script(request: GenerationRequest) -> list[Event]:
        return [0.02, GenerationError("lost")] if request.choice_index == 1 else [FOREVER_S]

    verifier = ScriptedVerifier(script=script)
    with pytest.raises(GenerationError, match="lost"):
        async for _ in generation(verifier, 3).pieces():
            pass
    assert sorted(verifier.aborted) == ["r-0", "r-2"]


@pytest.mark.parametrize("n", [1, 3])
async def test_a_failed_request_is_forgotten(n: int) -> None:
    verifier = ScriptedVerifier(script=lambda _: [GenerationError("lost")])

    async def call(held: frames.Held) -> None:
        async for _ in generation(verifier, n).pieces():
            pass

    assert not await frames.are_left_by(call)


async def test_a_slow_consumer_holds_the_streams_back() -> None:
    verifier = ScriptedVerifier(script=says("the quick brown fox jumps over the lazy dog", by=1))
    running = generation(verifier, 2)
    pieces = running.pieces()
    await anext(pieces)
    await asyncio.sleep(0.05)
    assert running.completion_tokens <= 6
    await pieces.aclose()
