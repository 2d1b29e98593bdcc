"""Changing how m is chosen in a service that is answering, as `serve deploy` does with a changed file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from deployed import HOST, Deployed, eventually
from ray import serve
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeDeploySchema

pytestmark = pytest.mark.ray

# Greedy, and it repeats itself: there is always something to look up.
LOOPING: dict[str, Any] = {"model": "switched", "prompt": "abc" * 30, "max_tokens": 400, "temperature": 0}


def apply(model: Path, budget: dict[str, Any] | None) -> None:
    """What `serve deploy FILE` sends."""
    arguments = {
        "model": str(model),
        "served_model_name": "switched",
        "metrics_dir": str(model.parent / "switched-metrics"),
        "engine": {"kv_cache_memory": "8MiB", "num_threads": 1},
        "speculation": {"num_speculative_tokens": 5},
        "replicas": {"router_cpus": 0, "verifier_cpus": 0, "drafter_cpus": 0},
    }
    verifier = {"name": "Verifier"} | ({"user_config": {"speculation": budget}} if budget else {})
    application = {
        "name": "switched",
        "route_prefix": "/switched",
        "import_path": "serving.app:build",
        "args": arguments,
        "deployments": [verifier],
    }
    client = _get_global_client()
    assert client is not None
    client.deploy_apps(ServeDeploySchema.model_validate({"applications": [application]}), _blocking=False)


def state() -> str:
    application = serve.status().applications.get("switched")
    return application.status.value if application else "missing"


async def test_the_mode_changes_without_dropping_a_request(port: int, tiny_model: Path) -> None:
    service = Deployed("switched", f"http://{HOST}:{port}/switched", "switched")
    await asyncio.to_thread(apply, tiny_model, None)
    await asyncio.to_thread(eventually, lambda: state() == "RUNNING")
    engine = (await asyncio.to_thread(service.stats))["pid"]
    expected, _ = await complete(service)
    await until(service, drafting=True)
    under_way = asyncio.create_task(complete(service, n=4))
    await asyncio.to_thread(apply, tiny_model, {"mode": "off"})
    await until(service, drafting=False)
    assert (await under_way)[0] == expected
    assert (await complete(service))[0] == expected
    await asyncio.to_thread(apply, tiny_model, {"mode": "fixed", "num_speculative_tokens": 2})
    await until(service, drafting=True)
    assert (await asyncio.to_thread(service.stats))["pid"] == engine, "it was restarted"
    await asyncio.to_thread(serve.delete, "switched")


async def until(service: Deployed, *, drafting: bool) -> None:
    for _ in range(200):
        if ((await complete(service))[1] > 0) == drafting:
            return
    pytest.fail("the mode did not change")


async def complete(service: Deployed, n: int = 1) -> tuple[str, int]:
    """Text and draft tokens."""
    answer = await service.async_client().completions.create(**LOOPING, n=n)
    assert answer.model_extra is not None
    return answer.choices[0].text, int(answer.model_extra["speculation"]["draft_tokens"])
