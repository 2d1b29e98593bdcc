"""Verifiers that are to go hand their streams to others: no request fails, and no token is another one."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import openai
import pytest
from deployed import HOST, Deployed, eventually, replicas_of
from ray import serve
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeDeploySchema

pytestmark = pytest.mark.ray

ASKED: dict[str, Any] = {"model": "moving", "prompt": "abcabcabc", "max_tokens": 500, "temperature": 1.0}
SEEDS = range(3)


class Moving(Deployed):
    """An application whose configuration file changes."""

    def apply(self, model: Path, verifiers: int, **settings: Any) -> None:
        """What `serve deploy FILE` sends."""
        arguments = {
            "model": str(model),
            "served_model_name": self.model,
            "dtype": "float32",
            "metrics_dir": str(model.parent / "moving-metrics"),
            "engine": {"kv_cache_memory": "8MiB", "num_threads": 1},
            "speculation": {"num_speculative_tokens": 5, "placement": "colocated"},
            "replicas": {"router_cpus": 0, "verifier_cpus": 0, "verifier_drain_s": 0},
            **settings,
        }
        application = {
            "name": self.name,
            "route_prefix": f"/{self.name}",
            "import_path": "serving.app:build",
            "args": arguments,
            "deployments": [{"name": "Verifier", "num_replicas": verifiers}],
        }
        client = _get_global_client()
        assert client is not None
        client.deploy_apps(ServeDeploySchema.model_validate({"applications": [application]}), _blocking=False)

    def settled(self, verifiers: int) -> bool:
        """Nothing is about to come or go."""
        application = serve.status().applications.get(self.name)
        running = Counter(replicas_of(self.name).values())
        return (
            application is not None
            and application.status.value == "RUNNING"
            and running == {"Router": 1, "Verifier": verifiers}
        )

    def replaced(self, before: set[int]) -> bool:
        """By one verifier and one router that were not there before."""
        return self.settled(1) and not before & set(replicas_of(self.name))

    async def streamed(self, seed: int) -> str:
        chunks = await self.async_client().completions.create(**ASKED, seed=seed, stream=True)
        return "".join([chunk.choices[0].text async for chunk in chunks])

    async def whole(self, seed: int) -> str:
        answer = await self.async_client().completions.create(**ASKED, seed=seed, n=2)
        return answer.choices[0].text


@pytest.fixture(scope="module")
def moving(port: int, tiny_model: Path) -> Iterator[Moving]:
    service = Moving("moving", f"http://{HOST}:{port}/moving", "moving")
    service.apply(tiny_model, verifiers=1)
    eventually(lambda: service.settled(1))
    yield service
    serve.delete("moving")


async def under_load(moving: Moving, disturb: Callable[[], Awaitable[None]]) -> int:
    """Requests keep coming while the service is disturbed, streamed and not. How many were answered, all
    of them as if nothing had happened."""
    expected = [await moving.whole(seed) for seed in SEEDS]
    over = asyncio.Event()

    async def ask(seed: int, how: Callable[[int], Awaitable[str]]) -> int:
        answered = 0
        while not over.is_set():
            assert await how(seed) == expected[seed]
            answered += 1
        return answered

    load = [asyncio.create_task(ask(seed, how)) for seed in SEEDS for how in (moving.streamed, moving.whole)]
    disturbance = asyncio.create_task(disturb())
    await asyncio.wait([*load, disturbance], return_when=asyncio.FIRST_COMPLETED)
    over.set()
    answers = await asyncio.gather(*load)
    await disturbance
    return sum(answers)


@pytest.mark.slow
async def test_scaling_down_under_load_fails_no_request(moving: Moving, tiny_model: Path) -> None:
    await asyncio.to_thread(moving.apply, tiny_model, 2)
    await asyncio.to_thread(eventually, lambda: moving.settled(2))

    async def scale_down() -> None:
        await asyncio.to_thread(moving.apply, tiny_model, 1)
        await asyncio.to_thread(eventually, lambda: moving.settled(1))

    await under_load(moving, scale_down)
    assert moving.metric("canopy:replays_total", reason="migrated") > 0
    assert moving.metric("canopy:replays_total", reason="lost") == 0
    await asyncio.to_thread(moving.wait_until_idle)


async def test_a_rolling_update_under_load_fails_no_request(moving: Moving, tiny_model: Path) -> None:
    """Of one router and one verifier: successors start first. Another limit leaves the model what it is."""
    before = set(replicas_of("moving"))

    async def update() -> None:
        await asyncio.to_thread(moving.apply, tiny_model, 1, router={"max_choices": 5})
        await asyncio.to_thread(eventually, lambda: moving.replaced(before))

    assert await under_load(moving, update) > 2 * len(SEEDS)
    assert moving.metric("canopy:replays_total", reason="migrated") > 0
    assert moving.metric("canopy:replays_total", reason="lost") == 0
    await asyncio.to_thread(moving.wait_until_idle)


class Ended(NamedTuple):
    """What a stream said, and the code of the error that ended it."""

    text: str
    code: str | None


async def ended(moving: Moving, seed: int) -> Ended:
    text = ""
    try:
        async for chunk in await moving.async_client().completions.create(**ASKED, seed=seed, stream=True):
            text += chunk.choices[0].text
    except openai.APIError as error:
        return Ended(text, error.code)
    return Ended(text, None)


@pytest.fixture
def other_model(tiny_model: Path, tmp_path: Path) -> Path:
    """Of the same shape and tokenizer, with other weights."""
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(tiny_model, tmp_path / "other")
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] = weights["lm_head.weight"].flip(0)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.slow
async def test_an_update_to_another_model_mixes_no_answers(
    moving: Moving, tiny_model: Path, other_model: Path
) -> None:
    """Streams that are under way end with the old model's tokens, or with an error that says why."""
    patience = {"router": {"replay_wait_s": 3}}
    before = set(replicas_of("moving"))
    await asyncio.to_thread(moving.apply, tiny_model, 1, **patience)
    await asyncio.to_thread(eventually, lambda: moving.replaced(before))
    old = [await moving.whole(seed) for seed in SEEDS]
    over = asyncio.Event()

    async def ask(seed: int) -> list[Ended]:
        answers = []
        while not over.is_set():
            answers.append(await ended(moving, seed))
        return answers

    clients = [asyncio.create_task(ask(seed)) for seed in SEEDS]
    before = set(replicas_of("moving"))
    await asyncio.to_thread(moving.apply, other_model, 1, **patience)
    await asyncio.to_thread(eventually, lambda: moving.replaced(before))
    over.set()
    answers = dict(zip(SEEDS, await asyncio.gather(*clients), strict=True))
    new = [await moving.whole(seed) for seed in SEEDS]
    assert all(new[seed] != old[seed] for seed in SEEDS)
    for seed, client in answers.items():
        whole = [answer.text for answer in client if answer.code is None]
        assert set(whole) <= {old[seed], new[seed]}
        assert all(old[seed].startswith(answer.text) for answer in client if answer.code is not None)
    codes = Counter(answer.code for client in answers.values() for answer in client)
    assert codes[None] > 0
    assert codes["model_replaced"] > 0
    assert codes.keys() == {None, "model_replaced"}
    assert [(await ended(moving, seed)).text for seed in SEEDS] == new
