"""Load comes, and there are more replicas; it goes, and there are fewer. No request notices."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deployed import HOST, Deployed, deploy, eventually, replicas_of
from ray import serve
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeDeploySchema

pytestmark = pytest.mark.ray

LONG: dict[str, Any] = {"model": "elastic", "prompt": "abcabcabc", "max_tokens": 400, "seed": 9}


def settings(model: Path, **autoscaling: Any) -> dict[str, Any]:
    return {
        "model": str(model),
        "served_model_name": "elastic",
        "metrics_dir": str(model.parent / "elastic-metrics"),
        "dtype": "float32",
        "engine": {"kv_cache_memory": "8MiB", "num_threads": 1, "max_num_seqs": 4},
        "speculation": {"num_speculative_tokens": 5, "placement": "pool"},
        "replicas": {"router_cpus": 0, "verifier_cpus": 0, "drafter_cpus": 0},
        "autoscaling": {"max_verifiers": 2} | autoscaling,
    }


def config_file(model: Path, least: int) -> dict[str, Any]:
    """A Serve config file with the joint policy. Two sequences are what a replica of it should have."""
    by_load = {
        "min_replicas": least,
        "max_replicas": 2,
        "target_ongoing_requests": 2,
        "metrics_interval_s": 0.5,
        "look_back_period_s": 1.0,
        "upscale_delay_s": 0,
        "downscale_delay_s": 1.0,
    }
    arguments = settings(model)
    arguments["replicas"]["verifiers"] = least
    application = {
        "name": "elastic",
        "route_prefix": "/elastic",
        "import_path": "serving.app:build",
        "args": arguments,
        "autoscaling_policy": {
            "policy_function": "serving.replicas.scaling:JointScaling",
            "policy_kwargs": {"drafter_sequences": 2},
        },
        "deployments": [
            {"name": name, "autoscaling_config": by_load} for name in ("Verifier", "DrafterPool")
        ],
    }
    return {"applications": [application]}


@contextmanager
def elastic(port: int, model: Path, least: int) -> Iterator[Deployed]:
    client = _get_global_client()
    assert client is not None
    client.deploy_apps(ServeDeploySchema.model_validate(config_file(model, least)), _blocking=True)
    service = Deployed("elastic", f"http://{HOST}:{port}/elastic", "elastic")
    eventually(lambda: is_ready(service))
    yield service
    serve.delete("elastic")


def is_ready(service: Deployed) -> bool:
    return service.get("ready").is_success


def numbers() -> tuple[int, int]:
    """Verifiers and drafters."""
    kinds = list(replicas_of("elastic").values())
    return kinds.count("Verifier"), kinds.count("DrafterPool")


async def text(service: Deployed) -> str:
    stream = await service.async_client().completions.create(**LONG, stream=True)
    return "".join([chunk.choices[0].text async for chunk in stream])


async def ask(service: Deployed, at_once: int, until: tuple[int, int], expected: str) -> None:
    """Streams of the same text until there are so many verifiers and drafters."""
    reached = asyncio.Event()

    async def one() -> None:
        while not reached.is_set():
            assert await text(service) == expected
            if numbers() == until:
                reached.set()

    await asyncio.gather(*(one() for _ in range(at_once)))


async def test_replicas_follow_the_load(port: int, tiny_model: Path) -> None:
    with elastic(port, tiny_model, least=1) as service:
        expected = await text(service)
        assert numbers() == (1, 1)
        await ask(service, at_once=8, until=(2, 2), expected=expected)
        await ask(service, at_once=1, until=(1, 1), expected=expected)


@pytest.mark.slow
async def test_without_load_there_may_be_none(port: int, tiny_model: Path) -> None:
    with elastic(port, tiny_model, least=0) as service:
        expected = await text(service)
        await asyncio.to_thread(eventually, lambda: numbers() == (0, 0))
        assert await asyncio.to_thread(is_ready, service)
        assert numbers() == (0, 0)
        await ask(service, at_once=1, until=(1, 1), expected=expected)


@pytest.mark.slow
async def test_without_a_config_file_each_kind_follows_its_own_load(port: int, tiny_model: Path) -> None:
    numbers_to_reach = {"max_drafters": 2, "sequences": 2, "drafter_sequences": 2}
    by_load = settings(tiny_model, up_after_s=0, down_after_s=1, **numbers_to_reach)
    service = await asyncio.to_thread(deploy, port, "elastic", by_load)
    expected = await text(service)
    await ask(service, at_once=8, until=(2, 2), expected=expected)
    await ask(service, at_once=1, until=(1, 1), expected=expected)
    serve.delete("elastic")
