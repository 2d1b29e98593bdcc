"""Load comes, and there are more verifiers; it goes, and there are fewer. No request notices."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deployed import HOST, Deployed, eventually, replicas_of
from ray import serve
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeDeploySchema

pytestmark = pytest.mark.ray

LONG: dict[str, Any] = {"model": "elastic", "prompt": "abcabcabc", "max_tokens": 1000, "seed": 9}


def config_file(model: Path) -> dict[str, Any]:
    """A Serve config file with the joint policy. Two sequences are what a replica of it should have."""
    by_load = {
        "min_replicas": 1,
        "max_replicas": 2,
        "target_ongoing_requests": 2,
        "metrics_interval_s": 0.5,
        "look_back_period_s": 1.0,
        "upscale_delay_s": 0,
        "downscale_delay_s": 2.0,
    }
    arguments = {
        "model": str(model),
        "served_model_name": "elastic",
        "dtype": "float32",
        "engine": {"kv_cache_memory": "8MiB", "num_threads": 1, "max_num_seqs": 4},
        "speculation": {"num_speculative_tokens": 5, "lease_s": 2.0},
        "replicas": {"router_cpus": 0, "verifier_cpus": 0, "drafter_cpus": 0},
    }
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
            {"name": name, "autoscaling_config": by_load, "graceful_shutdown_timeout_s": 60}
            for name in ("Verifier", "DrafterPool")
        ],
    }
    return {"applications": [application]}


@pytest.fixture
def elastic(port: int, tiny_model: Path) -> Iterator[Deployed]:
    client = _get_global_client()
    assert client is not None
    client.deploy_apps(ServeDeploySchema.model_validate(config_file(tiny_model)), _blocking=True)
    yield Deployed("elastic", f"http://{HOST}:{port}/elastic", "elastic")
    serve.delete("elastic")


def numbers() -> tuple[int, int]:
    """Verifiers and drafters."""
    kinds = list(replicas_of("elastic").values())
    return kinds.count("Verifier"), kinds.count("DrafterPool")


async def text(service: Deployed) -> str:
    stream = await service.async_client().completions.create(**LONG, stream=True)
    return "".join([chunk.choices[0].text async for chunk in stream])


async def test_replicas_follow_the_load(elastic: Deployed) -> None:
    expected = await text(elastic)
    assert numbers() == (1, 1)
    grown = asyncio.Event()

    async def ask() -> None:
        while not grown.is_set():
            assert await text(elastic) == expected

    crowd = [asyncio.create_task(ask()) for _ in range(8)]
    await asyncio.to_thread(eventually, lambda: numbers() == (2, 2))
    grown.set()
    await asyncio.gather(*crowd)

    async def ask_alone() -> None:
        while numbers() != (1, 1):
            assert await text(elastic) == expected

    await asyncio.wait_for(asyncio.create_task(ask_alone()), 60)
    assert await text(elastic) == expected
