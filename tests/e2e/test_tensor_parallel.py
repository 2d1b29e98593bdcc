"""A verifier of two ranks loses one of them, or its front: streams go on, and no process stays behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from deployed import Deployed, deploy, eventually, replicas_of, text_while, uses_torch
from ray import serve

pytestmark = pytest.mark.ray

LONG: dict[str, Any] = {
    "model": "ranks",
    "prompt": "abcabcabc",
    "max_tokens": 400,
    "temperature": 1.0,
    "seed": 9,
}


@pytest.fixture(scope="module")
def ranks(port: int, tiny_model: Path) -> Iterator[Deployed]:
    settings = {
        "model": str(tiny_model),
        "served_model_name": "ranks",
        "dtype": "float32",
        "engine": {"kv_cache_memory": "8MiB", "num_threads": 1, "tensor_parallel_size": 2},
        "speculation": {"num_speculative_tokens": 5, "placement": "colocated"},
        "replicas": {"router_cpus": 0, "verifier_cpus": 0, "drafter_cpus": 0},
    }
    yield deploy(port, "ranks", settings)
    serve.delete("ranks")


async def undisturbed(service: Deployed) -> str:
    answer = await service.async_client().completions.create(**LONG)
    return answer.choices[0].text


async def pids(service: Deployed) -> list[int]:
    """Of rank 0 and rank 1."""
    stats = await asyncio.to_thread(service.stats)
    return [stats["pid"], *stats["rank_pids"]]


async def assert_replaced(service: Deployed, before: list[int]) -> None:
    """By a whole new verifier, of which every block is accounted for."""
    assert not set(before) & set(await pids(service))
    await asyncio.to_thread(eventually, lambda: not any(map(psutil.pid_exists, before)))
    await asyncio.to_thread(service.wait_until_idle)


async def test_the_ranks_alone_load_torch(ranks: Deployed) -> None:
    assert all(map(uses_torch, await pids(ranks)))
    assert not any(map(uses_torch, replicas_of("ranks")))


async def test_a_stream_outlives_a_killed_rank(ranks: Deployed) -> None:
    expected, before = await undisturbed(ranks), await pids(ranks)
    assert len(before) == 2
    assert await text_while(ranks, LONG, before[1], signal.SIGKILL) == expected
    await assert_replaced(ranks, before)


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "how"), [(0, signal.SIGKILL), (1, signal.SIGSTOP)])
async def test_a_stream_outlives_a_rank_however_it_fails(
    ranks: Deployed, rank: int, how: signal.Signals
) -> None:
    """One that hangs is found by the watchdog."""
    expected, before = await undisturbed(ranks), await pids(ranks)
    assert await text_while(ranks, LONG, before[rank], how) == expected
    await assert_replaced(ranks, before)


@pytest.mark.slow
async def test_ranks_end_with_their_front(ranks: Deployed) -> None:
    expected, before = await undisturbed(ranks), await pids(ranks)
    (front,) = (pid for pid, title in replicas_of("ranks").items() if title == "Verifier")
    assert await text_while(ranks, LONG, front, signal.SIGKILL) == expected
    await assert_replaced(ranks, before)


@pytest.mark.slow
async def test_a_rank_that_hangs_while_nothing_is_asked_is_replaced(ranks: Deployed) -> None:
    expected, before = await undisturbed(ranks), await pids(ranks)
    os.kill(before[1], signal.SIGSTOP)
    await asyncio.to_thread(eventually, lambda: not psutil.pid_exists(before[1]))
    await asyncio.to_thread(eventually, lambda: is_up(ranks))
    assert await undisturbed(ranks) == expected
    await assert_replaced(ranks, before)


def is_up(service: Deployed) -> bool:
    try:
        return bool(service.stats())
    except Exception:  # whatever Serve raises while it restarts
        return False
