"""Clients that leave and processes that die."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import httpx
import openai
import psutil
import pytest
from deployed import Deployed, eventually, replicas_of

pytestmark = pytest.mark.ray

LONG: dict[str, Any] = {
    "model": "tiny",
    "prompt": "abcabcabc",
    "max_tokens": 1500,
    "temperature": 1.0,
    "seed": 9,
}


def test_a_client_that_leaves_frees_its_sequence(tiny: Deployed) -> None:
    with tiny.client().completions.create(**LONG, stream=True) as stream:
        next(iter(stream))
        assert tiny.stats()["unfinished"] == 1
    tiny.wait_until_idle()


def test_a_client_that_leaves_without_streaming_frees_all_choices(tiny: Deployed) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{tiny.url}/v1/completions", json=LONG | {"n": 4}, timeout=0.2)
    tiny.wait_until_idle()


async def test_a_drafter_killed_on_the_way_changes_nothing(tiny: Deployed) -> None:
    expected = tiny.client().completions.create(**LONG).choices[0].text
    drafter = await asyncio.to_thread(tiny.drafter_pid)
    stream = await tiny.async_client().completions.create(**LONG, stream=True)
    text = ""
    async for chunk in stream:
        if not text:
            os.kill(drafter, signal.SIGKILL)
        text += chunk.choices[0].text
    assert text == expected
    await asyncio.to_thread(eventually, lambda: draft_tokens(tiny) > 0)
    await asyncio.to_thread(tiny.wait_until_idle)


def draft_tokens(service: Deployed) -> int:
    """Of a request that repeats itself."""
    answer = service.client().completions.create(
        model="tiny", prompt="abc" * 30, max_tokens=30, temperature=0
    )
    assert answer.model_extra is not None
    return int(answer.model_extra["speculation"]["draft_tokens"])


async def test_a_killed_engine_ends_streams_with_an_error_and_comes_back(tiny: Deployed) -> None:
    expected = tiny.client().completions.create(**LONG).choices[0].text
    engine = (await asyncio.to_thread(tiny.stats))["pid"]
    stream = await tiny.async_client().completions.create(**LONG, stream=True)
    first = await anext(aiter(stream))
    assert first.choices
    os.kill(engine, signal.SIGKILL)
    with pytest.raises(openai.APIError, match="lost"):
        async for _ in stream:
            pass
    await asyncio.to_thread(eventually, lambda: answers(tiny))
    assert tiny.client().completions.create(**LONG).choices[0].text == expected
    await asyncio.to_thread(tiny.wait_until_idle)


async def test_a_killed_front_ends_streams_with_an_error_and_comes_back(tiny: Deployed) -> None:
    (front,) = (pid for pid, title in replicas_of("tiny").items() if title == "Verifier")
    stream = await tiny.async_client().completions.create(**LONG, stream=True)
    assert (await anext(aiter(stream))).choices
    os.kill(front, signal.SIGKILL)
    with pytest.raises(openai.APIError, match="lost"):
        async for _ in stream:
            pass
    await asyncio.to_thread(eventually, lambda: answers(tiny))
    await asyncio.to_thread(tiny.wait_until_idle)


@pytest.mark.slow
async def test_an_engine_that_hangs_is_replaced(tiny: Deployed) -> None:
    engine = (await asyncio.to_thread(tiny.stats))["pid"]
    stream = await tiny.async_client().completions.create(**LONG, stream=True)
    assert (await anext(aiter(stream))).choices
    os.kill(engine, signal.SIGSTOP)
    with pytest.raises(openai.APIError, match="lost"):
        async for _ in stream:
            pass
    await asyncio.to_thread(eventually, lambda: answers(tiny))
    assert not psutil.pid_exists(engine)
    await asyncio.to_thread(tiny.wait_until_idle)


def answers(service: Deployed) -> bool:
    request = {"model": "tiny", "prompt": "a", "max_tokens": 1}
    status = httpx.post(f"{service.url}/v1/completions", json=request, timeout=30).status_code
    assert status in {200, 503}
    return status == 200
