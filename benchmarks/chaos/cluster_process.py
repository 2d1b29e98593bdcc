"""Starts a Ray cluster with the service on it, and does to it what it is asked (see `Child`).

Every line is a list: what to do, and with what. The end of the input ends the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ray import serve
from ray.dashboard.modules.serve.sdk import ServeSubmissionClient

from benchmarks.chaos.nodes import Nodes
from benchmarks.chaos.seen import APPLICATION, Seen
from benchmarks.child import serve_lines
from benchmarks.stack_process import HOST, free_port, reason, wait_until_ready


class Cluster:
    """What can be asked; every method's answer fits a line of JSON."""

    def __init__(self) -> None:
        self._nodes: Nodes | None = None

    @property
    def nodes(self) -> Nodes:
        assert self._nodes is not None, "start comes first"
        return self._nodes

    @property
    def seen(self) -> Seen:
        return Seen(self.nodes.address)

    def start(self, settings: dict[str, Any], cpus: dict[str, int], counts: dict[str, int]) -> str:
        """cpus: of a node of each role; counts: nodes of each role but the head. Returns the url."""
        self._dashboard, self._port = free_port(), free_port()
        self._nodes = Nodes(self._dashboard, cpus["router"])
        for role, count in counts.items():
            for _ in range(count):
                self.nodes.add(role, cpus[role])
        serve.start(proxy_location="HeadOnly", http_options={"host": HOST, "port": self._port})
        self.deploy(settings)
        url = f"http://{HOST}:{self._port}"
        wait_until_ready(f"{url}/ready")
        return url

    def deploy(self, settings: dict[str, Any]) -> None:
        """As `serve deploy` does it; returns when the cluster has been told."""
        application = {
            "name": APPLICATION,
            "route_prefix": "/",
            "import_path": "serving.app:build",
            "args": settings,
        }
        client = ServeSubmissionClient(f"http://{HOST}:{self._dashboard}")
        client.deploy_applications({"proxy_location": "HeadOnly", "applications": [application]})

    def stop(self) -> None:
        if self._nodes is not None:
            serve.shutdown()  # type: ignore[no-untyped-call]
            self._nodes.stop()


def main() -> None:
    cluster = Cluster()
    commands: dict[str, Callable[..., Any]] = {
        "start": cluster.start,
        "deploy": cluster.deploy,
        "log_folder": lambda: cluster.nodes.log_folder,
        "add_node": lambda role, cpus: cluster.nodes.add(role, cpus),
        "kill_node": lambda node: cluster.nodes.kill(node),
        "drain_node": lambda node, deadline_s: cluster.nodes.drain(node, deadline_s),
        "remove_node": lambda node: cluster.nodes.remove(node),
        "health": lambda: cluster.seen.health(),
        "actors": lambda: cluster.seen.actors(),
        "engines": lambda: cluster.seen.engines(),
        "objects": lambda: cluster.seen.objects(),
        "placement_groups": lambda: cluster.seen.placement_groups(),
    }
    try:
        serve_lines(lambda line: {"answer": commands[line[0]](*line[1:])}, _why)
    finally:
        cluster.stop()


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}\n{reason(error)}"


if __name__ == "__main__":
    main()
