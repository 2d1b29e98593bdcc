"""Clients that leave and processes that die."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import httpx
import psutil
import pytest
from deployed import Deployed, eventually, replicas_of, text_while

pytestmark = pytest.mark.ray

LONG: dict[str, Any] = {
    "model": "tiny",
    "prompt": "abcabcabc",
    "max_tokens": 1500,
    "temperature": 1.0,
    "seed": 9,
}


def test_a_client_that_leaves_frees_its_sequence(tiny: Deployed) -> None:
    eventually(lambda: leaves_under_way(tiny))
    tiny.wait_until_idle()


def leaves_under_way(service: Deployed) -> bool:
    """False where the answer was whole before anybody looked, on a busy machine."""
    with service.client().completions.create(**LONG, stream=True) as stream:
        next(iter(stream))
        return bool(service.stats()["unfinished"] == 1)


def test_a_client_that_leaves_without_streaming_frees_all_choices(tiny: Deployed) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{tiny.url}/v1/completions", json=LONG | {"n": 4}, timeout=0.2)
    tiny.wait_until_idle()


async def test_a_drafter_killed_on_the_way_changes_nothing(tiny: Deployed) -> None:
    expected = tiny.client().completions.create(**LONG).choices[0].text
    drafter = await asyncio.to_thread(tiny.drafter_pid)
    assert await text_while(tiny, LONG, drafter, signal.SIGKILL) == expected
    await asyncio.to_thread(tiny.wait_until_drafting)
    await asyncio.to_thread(tiny.wait_until_idle)


async def test_a_stream_outlives_a_killed_engine(tiny: Deployed) -> None:
    expected = tiny.client().completions.create(**LONG).choices[0].text
    engine = (await asyncio.to_thread(tiny.stats))["pid"]
    assert await text_while(tiny, LONG, engine, signal.SIGKILL) == expected
    await asyncio.to_thread(tiny.wait_until_idle)


async def test_a_stream_outlives_a_killed_front(tiny: Deployed) -> None:
    expected = tiny.client().completions.create(**LONG).choices[0].text
    (front,) = (pid for pid, title in replicas_of("tiny").items() if title == "Verifier")
    assert await text_while(tiny, LONG, front, signal.SIGKILL) == expected
    await asyncio.to_thread(tiny.wait_until_idle)


@pytest.mark.slow
async def test_a_request_without_a_stream_outlives_a_killed_engine(tiny: Deployed) -> None:
    """Its client sees one answer, counted as one."""
    expected = tiny.client().completions.create(**LONG)
    engine = (await asyncio.to_thread(tiny.stats))["pid"]
    under_way = asyncio.create_task(tiny.async_client().completions.create(**LONG))
    await asyncio.to_thread(eventually, lambda: tiny.stats()["unfinished"] == 1)
    os.kill(engine, signal.SIGKILL)
    answer = await under_way
    assert answer.choices[0].text == expected.choices[0].text
    assert answer.usage == expected.usage
    await asyncio.to_thread(tiny.wait_until_idle)


@pytest.mark.slow
async def test_an_engine_that_hangs_is_replaced(tiny: Deployed) -> None:
    expected = tiny.client().completions.create(**LONG).choices[0].text
    engine = (await asyncio.to_thread(tiny.stats))["pid"]
    assert await text_while(tiny, LONG, engine, signal.SIGSTOP) == expected
    assert not psutil.pid_exists(engine)
    await asyncio.to_thread(tiny.wait_until_idle)
