"""The service on a cluster of its own, as those see it who watch it and do it harm."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.chaos.shape import Shape
from benchmarks.child import Child, ChildOwner
from benchmarks.errors import BenchmarkError
from benchmarks.stack import ENVIRONMENT

START_TIMEOUT_S = 180.0
RECOVERY_TIMEOUT_S = 120.0
LOOK_EVERY_S = 0.25


class Actor(NamedTuple):
    """name: its class; of a Serve replica its deployment's. node: Ray's id of it."""

    name: str
    pid: int
    node: str


class Service(ChildOwner):
    """A context manager; its methods may be called from any thread, one at a time.

    Raises BenchmarkError, with Serve's own words, when the service does not come up.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._lock = threading.Lock()
        super().__init__(Child("benchmarks.chaos.cluster_process", os.environ | ENVIRONMENT))
        with self._starting():
            self.url: str = self._ask("start", shape.settings, shape.cpus, shape.nodes)
            self.wait_until_whole(START_TIMEOUT_S)

    @property
    def pid(self) -> int:
        """Of the process whose descendants are all of the service's."""
        return self._child.pid

    @property
    def log_folder(self) -> Path:
        return Path(self._ask("log_folder"))

    def actors(self) -> list[Actor]:
        """Live ones, Ray's and Serve's own among them."""
        return [Actor(_name(a["name"]), a["pid"], a["node"]) for a in self._ask("actors")]

    def of_class(self, name: str) -> list[Actor]:
        return [actor for actor in self.actors() if actor.name == name]

    def engines(self) -> list[dict[str, Any]]:
        """Of every verifier that answers: its counters, `trouble` if its bookkeeping does not add up."""
        engines: list[dict[str, Any]] = self._ask("engines")
        return engines

    def objects(self) -> list[dict[str, Any]]:
        objects: list[dict[str, Any]] = self._ask("objects")
        return objects

    def placement_groups(self) -> dict[str, int]:
        groups: dict[str, int] = self._ask("placement_groups")
        return groups

    def deploy(self, changes: dict[str, Any]) -> None:
        """The same application with some settings changed: a rolling update begins."""
        self._ask("deploy", self.shape.settings | changes)

    def add_node(self, role: str) -> str:
        node: str = self._ask("add_node", role, self.shape.cpus[role])
        return node

    def kill_node(self, node: str) -> None:
        self._ask("kill_node", node)

    def drain_node(self, node: str, deadline_s: int) -> None:
        self._ask("drain_node", node, deadline_s)

    def remove_node(self, node: str) -> None:
        self._ask("remove_node", node)

    @property
    def is_whole(self) -> bool:
        """Every replica that there should be runs, no other, and so does every process behind them."""
        health = self._ask("health")
        if health["status"] != "RUNNING":
            return False
        running = {n: d["replicas"] for n, d in health["deployments"].items() if d["status"] == "HEALTHY"}
        wanted = {name: count for name, count in self.shape.processes.items() if count}
        if any(running.get(name) != {"RUNNING": wanted[name]} for name in health["deployments"]):
            return False
        counts = Counter(actor.name for actor in self.actors())
        return all(counts[name] == count for name, count in wanted.items())

    def wait_until_whole(self, timeout_s: float = RECOVERY_TIMEOUT_S) -> float:
        """Seconds that it took. Raises BenchmarkError."""
        return self.wait_until(lambda: self.is_whole, "the service is whole again", timeout_s)

    def wait_until(
        self, condition: Callable[[], bool], what: str, timeout_s: float = RECOVERY_TIMEOUT_S
    ) -> float:
        """Seconds that it took. Raises BenchmarkError."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > timeout_s:
                raise BenchmarkError(f"after {timeout_s:.0f} s it is not so: {what}\n{self._ask('health')}")
            time.sleep(LOOK_EVERY_S)
        return time.monotonic() - began

    def _ask(self, *line: Any) -> Any:
        with self._lock:
            return self._child.ask(list(line))["answer"]


def _name(class_name: str) -> str:
    """`ServeReplica:application:deployment` is the deployment's."""
    return class_name.rpartition(":")[2]
