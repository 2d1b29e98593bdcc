"""A script: the service on a Ray cluster of this machine with a node for the router and two for verifiers.

`python several_nodes.py MODEL drain|sigterm` takes the verifier's node away under load, by `ray drain-node`
or by SIGTERM to its `ray start --block`, and prints as JSON what became of the requests.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from deployed import HOST, Deployed, deploy, eventually
from ray import serve
from ray.cluster_utils import Cluster
from ray.serve.context import _get_global_client

from serving.replicas.workers import ROLE_LABEL

RAY = str(Path(sys.executable).with_name("ray"))
STORE = 80 * 2**20
# What a drain may take in all. A replica starts in some seconds, but the machine may be busy.
DRAIN_S = 60
ASKED: dict[str, Any] = {"model": "tiny", "prompt": "abcabcabc", "max_tokens": 500, "temperature": 1.0}
SEEDS = range(3)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def start_node(address: str) -> subprocess.Popen[bytes]:
    """As a pod's first process."""
    command = [
        RAY,
        "start",
        "--block",
        f"--address={address}",
        "--num-cpus=1",
        f"--labels={ROLE_LABEL}=verifier",
    ]
    ports = [f"--dashboard-agent-listen-port={free_port()}", f"--metrics-export-port={free_port()}"]
    return subprocess.Popen(
        [*command, *ports, f"--object-store-memory={STORE}"],
        env={**os.environ, "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": str(DRAIN_S)},
        stdout=subprocess.DEVNULL,
    )


def verifier_nodes() -> set[str]:
    """Ids of the nodes that verifiers are on, those that start or go included."""
    client = _get_global_client()
    assert client is not None
    deployments = client.get_serve_details()["applications"]["tiny"]["deployments"]
    return {replica.get("node_id", "none yet") for replica in deployments["Verifier"]["replicas"]}


def alive() -> set[str]:
    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}


async def answered(service: Deployed, disturb: Callable[[], None]) -> dict[str, Any]:
    """What became of requests that kept coming while `disturb` ran."""
    client = service.async_client()

    async def text(seed: int) -> str:
        chunks = await client.completions.create(**ASKED, seed=seed, stream=True)
        return "".join([chunk.choices[0].text async for chunk in chunks])

    expected = [await text(seed) for seed in SEEDS]
    over = asyncio.Event()
    outcomes: dict[str, int] = {"same": 0, "other": 0}

    async def ask(seed: int) -> None:
        while not over.is_set():
            try:
                outcome = "same" if await text(seed) == expected[seed] else "other"
            except Exception as error:
                outcome = repr(error)
            outcomes[outcome] = outcomes.get(outcome, 0) + 1

    load = [asyncio.create_task(ask(seed)) for seed in SEEDS]
    await asyncio.to_thread(disturb)
    over.set()
    await asyncio.gather(*load)
    return outcomes


def main(model: str, how: str) -> dict[str, Any]:
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": STORE, "labels": {ROLE_LABEL: "router"}},
    )
    before = {cluster.head_node.node_id}
    nodes: dict[str, subprocess.Popen[bytes]] = {}
    ray.init(cluster.address, namespace="seen from outside", log_to_driver=False)
    for _ in range(2):
        process = start_node(cluster.address)
        eventually(lambda: bool(alive() - before - nodes.keys()))
        nodes[(alive() - before - nodes.keys()).pop()] = process
    port = free_port()
    # One proxy: those of nodes on one machine would share the port, and a node's end break their connections.
    serve.start(proxy_location="HeadOnly", http_options={"host": HOST, "port": port})
    settings = {
        "model": model,
        "served_model_name": "tiny",
        "dtype": "float32",
        "engine": {"kv_cache_memory": "8MiB", "num_threads": 1},
        "speculation": {"num_speculative_tokens": 5, "placement": "colocated"},
        "replicas": {"pin_to_roles": True, "verifier_cpus": 0.9, "verifier_drain_s": 0},
    }
    service = deploy(port, "tiny", settings)
    (going,) = verifier_nodes()

    def take_away() -> None:
        if how == "sigterm":
            nodes[going].send_signal(signal.SIGTERM)
        else:
            node = [f"--address={cluster.address}", f"--node-id={going}"]
            reason = ["--reason=DRAIN_NODE_REASON_PREEMPTION", "--reason-message=test"]
            deadline = f"--deadline-remaining-seconds={DRAIN_S}"
            subprocess.run(
                [RAY, "drain-node", *node, *reason, deadline], check=True, stdout=subprocess.DEVNULL
            )
        eventually(lambda: going not in verifier_nodes(), 2 * DRAIN_S)

    outcomes = asyncio.run(answered(service, take_away))
    seen = {
        "outcomes": outcomes,
        "migrated": service.metric("canopy:replays_total", reason="migrated"),
        "lost": service.metric("canopy:replays_total", reason="lost"),
    }
    serve.shutdown()
    ray.shutdown()
    for process in nodes.values():
        process.terminate()
    cluster.shutdown()
    return seen


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
