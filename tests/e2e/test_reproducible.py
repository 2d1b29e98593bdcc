"""One seeded request is one text, whatever happens around it (docs/reproducibility.md)."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest
from deployed import Deployed

pytestmark = pytest.mark.ray

REQUEST: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Write a short story about a lighthouse keeper and a storm."}],
    "max_tokens": 80,
    "temperature": 0.8,
    "top_p": 0.95,
    "seed": 2026,
}


async def test_twelve_runs_of_one_request_give_one_text(default: Deployed) -> None:
    texts = [await ask(default), await ask(default)]  # a cold prefix cache, and a warm one
    texts += [await ask(default, num_speculative_tokens=m) for m in (0, 1, 3, 255)]
    texts += [await ask(default, cache_salt="cold again"), await streamed(default)]
    texts += await beside(default, others=6)
    texts += [await with_the_drafter_killed(default), await ask(default)]
    assert len(texts) == 12
    assert len(set(texts)) == 1
    assert len(texts[0]) > 100


async def ask(service: Deployed, **extra: Any) -> str:
    client = service.async_client()
    answer = await client.chat.completions.create(model=service.model, **REQUEST, extra_body=extra)
    return str(answer.choices[0].message.content)


async def streamed(service: Deployed, after_first: Any = None) -> str:
    client = service.async_client()
    text = ""
    async for chunk in await client.chat.completions.create(model=service.model, **REQUEST, stream=True):
        if after_first is not None:
            after_first()
            after_first = None
        text += chunk.choices[0].delta.content or ""
    return text


async def beside(service: Deployed, others: int) -> list[str]:
    """Twice at once, among requests of other lengths, seeds and temperatures."""
    client = service.async_client()
    traffic = [
        client.chat.completions.create(
            model=service.model,
            messages=[{"role": "user", "content": "Tell me about the sea. " * (1 + 7 * number)}],
            max_tokens=20 + 20 * number,
            temperature=0.3 * number,
            seed=number,
        )
        for number in range(others)
    ]
    first, second, *_ = await asyncio.gather(ask(service), ask(service), *traffic)
    return [first, second]


async def with_the_drafter_killed(service: Deployed) -> str:
    drafter = await asyncio.to_thread(service.drafter_pid)
    return await streamed(service, after_first=lambda: os.kill(drafter, signal.SIGKILL))
