"""A script: the chart's Serve config on a Ray cluster of this machine with a node for each role.

`python labelled_cluster.py CONFIG` deploys it as KubeRay does (over the dashboard), asks for a completion,
kills the engine's process, and prints as JSON what it saw.
"""

from __future__ import annotations

import json
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil
import ray
import yaml
from ray.cluster_utils import Cluster
from ray.dashboard.modules.serve.sdk import ServeSubmissionClient

from serving.replicas.workers import ROLE_LABEL

ROLES = ("router", "verifier", "drafter")
HOST = "127.0.0.1"
Found = TypeVar("Found")


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind((HOST, 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def eventually(look: Callable[[], Found | None], timeout_s: float) -> Found:
    end = time.monotonic() + timeout_s
    while (found := look()) is None:
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.5)
    return found


def fetch(port: int, path: str, body: dict[str, Any] | None = None) -> str:
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(
        f"http://{HOST}:{port}{path}", data, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def status(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def series(text: str) -> set[str]:
    return {line.split("{")[0].split()[0] for line in text.splitlines() if line and not line.startswith("#")}


def start_nodes(dashboard: int, ray_metrics: list[int], agents: list[int]) -> None:
    common = {"object_store_memory": 80 * 2**20}
    head = {"num_cpus": 0, "include_dashboard": True, "dashboard_port": dashboard}
    ports = [
        {"metrics_export_port": metrics, "dashboard_agent_listen_port": agent}
        for metrics, agent in zip(ray_metrics, agents, strict=True)
    ]
    cluster = Cluster(initialize_head=True, head_node_args=head | ports[0] | common)
    for role, own in zip(ROLES, ports[1:], strict=True):
        cluster.add_node(num_cpus=1, labels={ROLE_LABEL: role}, **own, **common)
    cluster.connect(namespace="seen from outside")


def deploy(dashboard: int, config: dict[str, Any]) -> dict[str, list[str]]:
    """Node ids of each deployment's replicas, once all of them run."""
    client = ServeSubmissionClient(f"http://{HOST}:{dashboard}")
    client.deploy_applications(config)

    def running() -> dict[str, Any] | None:
        (application,) = client.get_serve_details()["applications"].values() or ({"status": ""},)
        assert application["status"] != "DEPLOY_FAILED", application["message"]
        return application["deployments"] if application["status"] == "RUNNING" else None

    deployments = eventually(running, 180)
    return {name: [r["node_id"] for r in each["replicas"]] for name, each in deployments.items()}


def kill_the_engine() -> None:
    (engine,) = [p for p in psutil.Process().children(recursive=True) if "EngineWorker" in p.name()]
    engine.kill()


def main(config: dict[str, Any]) -> dict[str, Any]:
    dashboard, http, *others = free_ports(13)
    ray_metrics, agents, service = others[:4], others[4:8], others[8:]
    config["http_options"] = {"host": HOST, "port": http}
    settings = config["applications"][0]["args"]
    settings["engine"] |= {"num_threads": 1, "kv_cache_memory": "64MiB", "max_model_len": 512}
    settings["replicas"] |= {f"{role}_metrics_port": port for role, port in zip(ROLES, service, strict=True)}
    start_nodes(dashboard, ray_metrics, agents)
    nodes = deploy(dashboard, config)
    roles = {node["NodeID"]: node["Labels"].get(ROLE_LABEL) for node in ray.nodes()}
    question = {
        "model": "smollm2-135m-instruct",
        "max_tokens": 64,
        "temperature": 0,
        "messages": [{"role": "user", "content": "Count from one to twenty."}],
    }
    answer = json.loads(fetch(http, "/v1/chat/completions", question))
    paths = {
        "/-/healthz": http,
        "/health": http,
        "/api/gcs_healthz": dashboard,
        "/api/local_raylet_healthz": agents[1],
    }
    answered = [path for path, port in paths.items() if fetch(port, path)]
    exported = set().union(*(series(fetch(port, "/metrics")) for port in service))
    kill_the_engine()

    def failure() -> set[str] | None:
        names = set().union(*(series(fetch(port, "/metrics")) for port in ray_metrics))
        return names if "ray_serve_health_check_failures_total" in names else None

    return {
        "roles": {name: sorted({roles[node] for node in ids}) for name, ids in nodes.items()},
        "completion_tokens": answer["usage"]["completion_tokens"],
        "paths": answered,
        "without_token": status(dashboard, "/api/serve/applications/"),
        "service_metrics": sorted(exported),
        "ray_metrics": sorted(eventually(failure, 60)),
    }


if __name__ == "__main__":
    print(json.dumps(main(yaml.safe_load(Path(sys.argv[1]).read_text()))))
