"""What the cluster's own process sees of the service, as plain numbers that fit a line of JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ray import serve
from ray.util.state import list_actors, list_objects, list_placement_groups

APPLICATION = "canopy"
LIMIT = 10_000
ANSWER_TIMEOUT_S = 10.0


class Seen:
    """address: the cluster's; several may run on this machine."""

    def __init__(self, address: str) -> None:
        self._where: dict[str, Any] = {"address": address, "limit": LIMIT}

    def health(self) -> dict[str, Any]:
        """Of each deployment its status and how many replicas are in which state."""
        application = serve.status().applications.get(APPLICATION)
        if application is None:
            return {"status": "NOT_STARTED", "deployments": {}}
        deployments = {
            name: {"status": each.status, "replicas": each.replica_states}
            for name, each in application.deployments.items()
        }
        return {"status": application.status, "deployments": deployments}

    def actors(self) -> list[dict[str, Any]]:
        """Every live one: class, process id and node."""
        alive = list_actors(filters=[("state", "=", "ALIVE")], **self._where)
        return [{"name": a.class_name, "pid": a.pid, "node": a.node_id} for a in alive]

    def engines(self) -> list[dict[str, Any]]:
        """Of every verifier that answers: its engine's counters, and whether its bookkeeping adds up."""
        found = []
        for stats, trouble in zip(_broadcast("stats"), _broadcast("check_integrity"), strict=True):
            if isinstance(stats, dict):
                found.append(stats | {"trouble": str(trouble) if isinstance(trouble, Exception) else None})
        return found

    def objects(self) -> list[dict[str, Any]]:
        """Every object that a process of the cluster refers to, by how, and the processes that do."""
        return [
            {"id": o.object_id, "how": o.reference_type, "pid": o.pid, "bytes": o.object_size}
            for o in list_objects(raise_on_missing_output=False, **self._where)  # of processes that end
        ]

    def placement_groups(self) -> dict[str, int]:
        """How many there are in each state but the last."""
        return Counter(g.state for g in list_placement_groups(**self._where) if g.state != "REMOVED")


def _broadcast(method: str) -> list[Any]:
    handle = serve.get_deployment_handle("Verifier", APPLICATION)
    answers: list[Any] = handle.broadcast(method).results(timeout_s=ANSWER_TIMEOUT_S, return_exceptions=True)
    return answers
