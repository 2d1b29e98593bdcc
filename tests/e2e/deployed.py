"""A deployed application as the tests see it: over HTTP, and through its replicas' handles."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import psutil
import ray
from prometheus_client.parser import text_string_to_metric_families
from ray import serve

from serving.app import build
from serving.replicas.workers import named_worker

HOST = "127.0.0.1"
PATIENCE_S = 120.0  # until something counts as hanging, however busy the machine is


@dataclass(frozen=True)
class Deployed:
    name: str
    url: str
    model: str

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="any", max_retries=0)

    def async_client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="any", max_retries=0)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        return httpx.get(f"{self.url}/{path}", headers=headers, timeout=PATIENCE_S)

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return httpx.post(f"{self.url}/{path}", json=body, timeout=PATIENCE_S)

    def stats(self) -> dict[str, Any]:
        return self._handle("Verifier").stats.remote().result(timeout_s=PATIENCE_S)

    def wait_until_idle(self) -> None:
        """Nothing runs or waits, and every block is accounted for."""
        eventually(lambda: self.stats()["unfinished"] == 0)
        self._handle("Verifier").check_integrity.remote().result(timeout_s=PATIENCE_S)

    def wait_until_drafting(self) -> None:
        """It has leased a drafter."""
        eventually(lambda: self._draft_tokens() > 0)

    def metric(self, name: str, **labels: str) -> float:
        """Of all processes of the service; 0 where there is no such series yet."""
        text = self.get("metrics").text
        samples = [
            sample
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return sum(sample.value for sample in samples)

    def drafter_pid(self) -> int:
        lease = self._handle("DrafterPool").lease.remote("a test", {}).result(timeout_s=PATIENCE_S)
        worker = named_worker(lease.worker)
        return ray.get(worker.__ray_call__.remote(lambda _: os.getpid()))

    def _draft_tokens(self) -> int:
        """Of a request that repeats itself."""
        answer = self.client().completions.create(
            model=self.model, prompt="abc" * 30, max_tokens=30, temperature=0
        )
        assert answer.model_extra is not None
        return int(answer.model_extra["speculation"]["draft_tokens"])

    def _handle(self, deployment: str) -> Any:
        return serve.get_deployment_handle(deployment, self.name)


async def text_while(service: Deployed, request: dict[str, Any], pid: int, how: signal.Signals) -> str:
    """The whole text of a streamed completion; process `pid` is sent a signal when it has begun."""
    text = ""
    async for chunk in await service.async_client().completions.create(**request, stream=True):
        if not text:
            os.kill(pid, how)
        text += chunk.choices[0].text
    return text


def deploy(port: int, name: str, settings: dict[str, Any]) -> Deployed:
    """Returns when the application serves."""
    serve.run(build(settings), name=name, route_prefix=f"/{name}")
    deployed = Deployed(name, f"http://{HOST}:{port}/{name}", settings["served_model_name"])
    eventually(lambda: _is_ready(deployed))
    return deployed


def _is_ready(deployed: Deployed) -> bool:
    try:
        deployed.client().models.retrieve(deployed.model)
    except openai.APIStatusError:
        return False
    return True


def eventually(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.1)


def replicas_of(application: str) -> dict[int, str]:
    """Process ids of the application's replicas in this session's cluster, with their deployments."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            title = " ".join(process.cmdline()).split(".")[0].strip()
            if title.startswith(f"ray::ServeReplica:{application}:"):
                found[process.pid] = title.rpartition(":")[2]
    return found


def uses_torch(pid: int) -> bool:
    return "libtorch" in Path(f"/proc/{pid}/maps").read_text()
