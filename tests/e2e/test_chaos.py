"""Invariants 4 and 7 under load: whatever dies, every answer is whole and what it would have been, and no
block is left behind. A router's own requests break off; asked again with their seeds, they say the same."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence

import pytest
from deployed import Deployed, eventually, replicas_of

from benchmarks.chaos.asks import Ask, make_asks
from benchmarks.chaos.bench import Progress
from benchmarks.chaos.load import Answered, Load
from benchmarks.chaos.verdict import judge

pytestmark = pytest.mark.ray

CLIENTS = 6


async def test_answers_outlive_drafter_engine_and_front(tiny: Deployed) -> None:
    def engine() -> int:
        return int(tiny.stats()["pid"])

    async def disturb() -> None:
        for pid in (tiny.drafter_pid, engine, lambda: replica(tiny, "Verifier")):
            await asyncio.to_thread(replace, pid)

    answers = await disturbed(tiny, make_asks(12, 160, seed=1), disturb)
    assert not any(len(answer.replies) > 1 for answer in answers)


async def test_asked_again_after_the_router_died_it_says_the_same(tiny: Deployed) -> None:
    async def disturb() -> None:
        await asyncio.to_thread(replace, lambda: replica(tiny, "Router"))

    answers = await disturbed(tiny, make_asks(12, 160, seed=2), disturb, insist=True)
    assert any(len(answer.replies) > 1 for answer in answers)


async def disturbed(
    service: Deployed, asks: Sequence[Ask], disturb: Callable[[], Awaitable[None]], *, insist: bool = False
) -> list[Answered]:
    """What clients got meanwhile: all of it, and the same as before."""
    before: dict[int, Answered] = {}
    await Load(service.url, asks, CLIENTS, lambda answer: before.update({answer.place: answer})).run()
    progress = Progress(len(asks))

    async def when_under_way() -> None:
        await progress.more(1)
        await disturb()

    await Load(service.url, asks, CLIENTS, progress.take, insist=insist).during(when_under_way())
    verdict = judge(progress.answers, [before[place].reply for place in range(len(asks))])
    assert verdict.passed, verdict
    assert verdict.total >= len(asks)
    await asyncio.to_thread(service.wait_until_idle)
    return progress.answers


def replica(service: Deployed, deployment: str) -> int:
    (pid,) = (pid for pid, title in replicas_of(service.name).items() if title == deployment)
    return pid


def replace(pid_of: Callable[[], int]) -> None:
    """Kill the process; returns when another one has its place."""
    old = pid_of()
    os.kill(old, signal.SIGKILL)
    eventually(lambda: another(pid_of, old))


def another(pid_of: Callable[[], int], old: int) -> bool:
    try:
        return pid_of() != old
    except Exception:  # whatever Serve raises while it restarts; no replica
        return False
