"""Pods of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deploy.cluster.connection import Cluster
from deploy.cluster.errors import explained

RAY_CLUSTER, RAY_GROUP, RAY_TYPE = "ray.io/cluster", "ray.io/group", "ray.io/node-type"
WORKER = "worker"


def pods_of(cluster: Cluster, *ray_clusters: str) -> list[Any]:
    """By their Ray clusters' names. Raises DeployError."""
    with explained("pods"):
        selector = f"{RAY_CLUSTER} in ({','.join(name for name in ray_clusters if name)})"
        return list(cluster.core.list_namespaced_pod(cluster.namespace, label_selector=selector).items)


def labels(thing: Any) -> dict[str, str]:
    return thing.metadata.labels or {}


def is_ready(pod: Any) -> bool:
    conditions = pod.status.conditions or []
    return pod.metadata.deletion_timestamp is None and any(
        condition.type == "Ready" and condition.status == "True" for condition in conditions
    )


def troubles(cluster: Cluster, ray_cluster: str) -> list[str]:
    """Why pods of a Ray cluster do not run, each reason once."""
    if not ray_cluster:
        return []
    found = (trouble for pod in pods_of(cluster, ray_cluster) for trouble in _troubles(pod))
    return list(dict.fromkeys(found))


def _troubles(pod: Any) -> Iterator[str]:
    for condition in pod.status.conditions or []:
        if condition.type == "PodScheduled" and condition.status == "False":
            yield f"{_role(pod)} is not scheduled ({condition.message})"
    statuses = [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]
    for status in statuses:
        waiting = status.state.waiting if status.state else None
        if waiting is not None and waiting.reason not in ("PodInitializing", "ContainerCreating"):
            yield f"{_role(pod)} waits ({waiting.reason})"


def _role(pod: Any) -> str:
    return f"group {labels(pod)[RAY_GROUP]}" if RAY_GROUP in labels(pod) else str(pod.metadata.name)
