"""Requests that wait for a verifier: how many, how long, in which order."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from serving.errors import OverloadedError, UnavailableError
from serving.metrics import REGISTRY, RouterMetrics
from serving.router.waiting import WaitingRoom
from serving.types import GenerationRequest, SamplingParams

WAIT_S = 0.05


def room(places: int = 4, wait_s: float = WAIT_S) -> WaitingRoom:
    return WaitingRoom(places, wait_s, RouterMetrics("waiting"))


def request(name: str, priority: int = 0) -> GenerationRequest:
    return GenerationRequest(name, (1,), SamplingParams(max_tokens=1), priority=priority)


def queued() -> float | None:
    return REGISTRY.get_sample_value("canopy:requests_queued", {"model_name": "waiting"})


async def settled() -> None:
    """Everybody has done what they can do now."""
    for _ in range(5):
        await asyncio.sleep(0)


async def enter(stack: AsyncExitStack, waiting: WaitingRoom, *requests: GenerationRequest) -> None:
    for each in requests:
        await stack.enter_async_context(waiting.place(each))


async def test_so_many_may_wait_and_no_more() -> None:
    waiting = room(places=2)
    async with AsyncExitStack() as stack:
        await enter(stack, waiting, request("a"), request("b"))
        assert queued() == 2
        with pytest.raises(OverloadedError):
            await enter(stack, waiting, request("c"))
    assert queued() == 0
    async with waiting.place(request("d")):
        pass


async def test_a_place_is_free_when_a_verifier_has_the_request() -> None:
    """Not only when that says something, which a long prompt delays."""
    waiting = room(places=1)
    async with waiting.place(request("a")):
        await asyncio.to_thread(waiting.taken, "a")
        await settled()
        async with waiting.place(request("b")):
            assert queued() == 1


async def test_batch_requests_leave_places_for_the_others() -> None:
    waiting = room(places=4)
    async with AsyncExitStack() as stack:
        await enter(stack, waiting, request("interactive"))
        batch = [asyncio.create_task(enter(stack, waiting, request(name, 1))) for name in "ab"]
        await settled()
        with pytest.raises(OverloadedError):
            await enter(stack, waiting, request("c", 1))
        await enter(stack, waiting, request("another"))
        for task in batch:
            task.cancel()


async def test_batch_requests_go_one_by_one_and_after_the_others() -> None:
    waiting, turns = room(places=8), []

    async def wait(name: str, priority: int) -> None:
        async with waiting.place(request(name, priority)):
            turns.append(name)
            await asyncio.sleep(60)

    order = [("interactive", 0), ("batch 1", 1), ("batch 2", 1)]
    tasks = [asyncio.create_task(wait(*each)) for each in order]
    seen = []
    for name, _ in order:
        await settled()
        seen.append(tuple(turns))
        waiting.taken(name)
    assert seen == [("interactive",), ("interactive", "batch 1"), ("interactive", "batch 1", "batch 2")]
    for task in tasks:
        task.cancel()


async def wait_long(waiting: WaitingRoom) -> None:
    async with waiting.place(request("a")):
        await asyncio.sleep(60)


@pytest.mark.parametrize("gone_before", [True, False])
async def test_where_nothing_is_in_service_nobody_waits_long(gone_before: bool) -> None:
    """Those that were there when the last one went, and those that come after."""
    waiting = room()
    waiting.in_service(0 if gone_before else 1)
    waits = asyncio.create_task(wait_long(waiting))
    await settled()
    waiting.in_service(0)
    with pytest.raises(UnavailableError):
        await waits
    assert queued() == 0


async def test_what_comes_back_in_time_is_waited_for() -> None:
    waiting = room()
    waiting.in_service(0)
    async with waiting.place(request("a")):
        waiting.in_service(1)
        await asyncio.sleep(2 * WAIT_S)


async def test_a_request_that_was_taken_waits_for_its_first_token() -> None:
    """Its verifier may be the last, and to go: it still answers."""
    waiting = room()
    async with waiting.place(request("a")):
        waiting.taken("a")
        waiting.in_service(0)
        await asyncio.sleep(2 * WAIT_S)


async def test_the_requests_own_deadline_is_its_own() -> None:
    waiting = room(wait_s=60)
    waiting.in_service(0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(WAIT_S), waiting.place(request("a")):
            await asyncio.sleep(60)
    assert queued() == 0
