from __future__ import annotations

import asyncio

import frames
import pytest

from serving.errors import GenerationError
from serving.replicas.stream import DeltaStream
from serving.types import FinishReason, SpeculationStats, TokenDelta, TokenLogprobs


async def test_a_slow_consumer_gets_everything_at_once() -> None:
    stream = DeltaStream()
    stream.put(TokenDelta("a", (1,)))
    stream.put(TokenDelta("a", (2, 3)))
    stream.put(TokenDelta("a", (4,), FinishReason.LENGTH, stats=SpeculationStats(steps=3), cached_tokens=16))
    delta = await stream.take()
    assert delta.token_ids == (1, 2, 3, 4)
    assert delta.finish_reason is FinishReason.LENGTH
    assert delta.stats == SpeculationStats(steps=3)
    assert delta.cached_tokens == 16


async def test_log_probabilities_stay_with_their_tokens() -> None:
    stream, told = DeltaStream(), [TokenLogprobs(-token, ()) for token in range(5)]
    stream.put(TokenDelta("a", (1,), logprobs=(told[1],), prompt_logprobs=(told[0],)))
    stream.put(TokenDelta("a", (2, 3), logprobs=(told[2], told[3])))
    stream.put(TokenDelta("a", (), FinishReason.LENGTH))
    delta = await stream.take()
    assert delta.logprobs == tuple(told[1:4])
    assert delta.prompt_logprobs == (told[0],)


async def test_a_fast_consumer_waits_for_each() -> None:
    stream = DeltaStream()
    taking = asyncio.create_task(stream.take())
    await asyncio.sleep(0.01)
    assert not taking.done()
    stream.put(TokenDelta("a", (1,)))
    assert (await taking).token_ids == (1,)
    taking = asyncio.create_task(stream.take())
    await asyncio.sleep(0.01)
    assert not taking.done()
    taking.cancel()


async def test_a_failure_comes_after_what_was_there_and_stays() -> None:
    stream = DeltaStream()
    stream.put(TokenDelta("a", (1,)))
    stream.fail(GenerationError("lost"))
    assert (await stream.take()).token_ids == (1,)
    for _ in range(2):
        with pytest.raises(GenerationError, match="lost"):
            await stream.take()


async def test_what_comes_after_a_failure_does_not_put_it_off() -> None:
    """An engine goes on until it is told to abort; the consumer has to hear that it is to go elsewhere."""
    stream = DeltaStream()
    stream.fail(GenerationError("going"))
    stream.put(TokenDelta("a", (1,)))
    with pytest.raises(GenerationError, match="going"):
        await stream.take()


async def test_a_stream_that_failed_is_forgotten() -> None:
    async def call(held: frames.Held) -> None:
        stream = DeltaStream()
        stream.fail(GenerationError("lost"))
        await stream.take()

    assert not await frames.are_left_by(call)
