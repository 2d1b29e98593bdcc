"""A Ray cluster of several nodes on this machine, each with a raylet of its own."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import Any

import psutil
import ray
from ray.cluster_utils import Cluster

from serving.replicas.workers import ROLE_LABEL

OBJECT_STORE = 80 * 2**20
NAMESPACE = "serve"
ENDED_TIMEOUT_S = 30.0


class Nodes:
    """The head takes routers; every other node, one role's replicas (see `replicas.pin_to_roles`)."""

    def __init__(self, dashboard_port: int, head_cpus: int) -> None:
        head = {"include_dashboard": True, "dashboard_port": dashboard_port, **_common("router", head_cpus)}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._cluster.connect(NAMESPACE)  # type: ignore[no-untyped-call]
        self._added: dict[str, Any] = {}

    @property
    def address(self) -> str:
        address: str = self._cluster.gcs_address
        return address

    @property
    def log_folder(self) -> str:
        """Of all nodes: they share this machine's."""
        head = self._cluster.head_node
        assert head is not None
        return str(head.get_logs_dir_path())

    def add(self, role: str, cpus: int) -> str:
        """The new node's id."""
        node = self._cluster.add_node(**_common(role, cpus))
        self._added[node.node_id] = node
        return str(node.node_id)

    def kill(self, node_id: str) -> None:
        """All its processes at once, without a word: a machine that is taken away."""
        node = self._added.pop(node_id)
        processes = _processes(node)
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, ENDED_TIMEOUT_S)
        self._cluster.worker_nodes.remove(node)

    def drain(self, node_id: str, deadline_s: int) -> None:
        """As an operator does it who has been told that the machine goes. Returns at once."""
        command = ["-m", "ray.scripts.scripts", "drain-node", "--address", self.address]
        command += ["--node-id", node_id, "--reason", "DRAIN_NODE_REASON_PREEMPTION"]
        command += ["--reason-message", "reclaimed", "--deadline-remaining-seconds", str(deadline_s)]
        subprocess.run([sys.executable, *command], check=True, capture_output=True)

    def remove(self, node_id: str) -> None:
        """One that has been drained ends in order."""
        self._cluster.remove_node(self._added.pop(node_id))

    def stop(self) -> None:
        ray.shutdown()
        self._cluster.shutdown()  # type: ignore[no-untyped-call]


def _common(role: str, cpus: int) -> dict[str, Any]:
    return {"num_cpus": cpus, "labels": {ROLE_LABEL: role}, "object_store_memory": OBJECT_STORE}


def _processes(node: Any) -> list[psutil.Process]:
    """The raylet first: it would start again what is killed before it."""
    pids = (info.process.pid for infos in node.all_processes.values() for info in infos)
    found = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            found += [process, *process.children(recursive=True)]
    return found
