"""Two verifiers that hold two requests each: where requests go, and those that there is no room for."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from deployed import PATIENCE_S, Deployed, deploy, eventually, replicas_of
from ray import serve

pytestmark = pytest.mark.ray

HELD = QUEUED = 2


@pytest.fixture(scope="module")
def small(port: int, tiny_model: Path) -> Iterator[Deployed]:
    settings = {
        "model": str(tiny_model),
        "served_model_name": "small",
        "dtype": "float32",
        "engine": {"kv_cache_memory": "8MiB", "num_threads": 1},
        "speculation": {"num_speculative_tokens": 5, "placement": "colocated"},
        "router": {"affinity_tokens": 32, "max_queued_requests": QUEUED, "connect_wait_s": 0.2},
        "replicas": {
            "router_cpus": 0,
            "verifier_cpus": 0,
            "verifiers": 2,
            "max_ongoing_requests": HELD,
        },
    }
    yield deploy(port, "small", settings)
    serve.delete("small")


def test_the_same_beginning_goes_where_it_is_cached(small: Deployed) -> None:
    """One after the other: nobody is too busy."""
    for letter in "abcd":
        cached = []
        for ending in range(3):
            prompt = letter * 256 + str(ending)
            answer = small.client().completions.create(model="small", prompt=prompt, max_tokens=1)
            assert answer.usage is not None
            cached.append(answer.usage.model_dump()["prompt_tokens_details"]["cached_tokens"] > 0)
        assert cached == [False, True, True]
    assert small.metric("canopy:requests_placed_total", where="home") >= 12


async def test_too_many_are_told_when_to_try_again(small: Deployed) -> None:
    """Those that were taken, or waited, are answered."""
    body: dict[str, Any] = {"model": "small", "prompt": "abc", "max_tokens": 300, "ignore_eos": True}
    async with httpx.AsyncClient(base_url=small.url, timeout=PATIENCE_S) as http:
        requests = (http.post("/v1/completions", json=body) for _ in range(20))
        answers = await asyncio.gather(*requests)
    counts = Counter(answer.status_code for answer in answers)
    assert set(counts) == {200, 429}
    assert counts[200] >= HELD
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.json()["error"]["code"] == "overloaded"
    assert int(refused.headers["retry-after"]) > 0
    assert small.metric("canopy:requests_rejected_total", reason="overloaded") == counts[429]
    assert small.metric("canopy:requests_queued") == 0


@pytest.mark.slow
def test_where_nothing_is_ready_it_is_said_at_once(small: Deployed) -> None:
    """And forgotten when something is."""
    for pid, title in replicas_of("small").items():
        if title == "Verifier":
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: running_verifiers() == 0)
    answer = httpx.post(f"{small.url}/v1/completions", json={"model": "small", "prompt": "abc"}, timeout=2)
    assert small.get("ready").status_code == answer.status_code == 503
    assert answer.json()["error"]["message"] == "no verifier is in service; try again"
    assert int(answer.headers["retry-after"]) > 0
    eventually(lambda: running_verifiers() == 2)
    assert small.client().completions.create(model="small", prompt="abc").choices


def running_verifiers() -> int:
    states = serve.status().applications["small"].deployments["Verifier"].replica_states
    return states.get("RUNNING", 0)
