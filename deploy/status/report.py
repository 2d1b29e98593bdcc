"""What `status` shows, from the RayService, its pods and their nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from deploy.cluster.connection import Cluster
from deploy.cluster.errors import explained
from deploy.cluster.pods import RAY_CLUSTER, RAY_GROUP, is_ready, labels, pods_of, troubles
from deploy.cluster.rayservice import RayServiceState, ServeDeployment
from deploy.rollout.readiness import Phase, Verdict, judge

_MACHINE, _ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
_CAPACITY = ("karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType")


class Group(NamedTuple):
    """Pods of one group of one Ray cluster."""

    cluster: str
    name: str
    ready: int
    pods: int


class Node(NamedTuple):
    """`capacity`: spot or on-demand; empty where nothing says so. `pods`: of this service."""

    name: str
    machine: str
    capacity: str
    zone: str
    cordoned: bool
    pods: int


class Report(NamedTuple):
    name: str
    verdict: Verdict
    endpoints: int
    clusters: tuple[str, ...]
    deployments: tuple[ServeDeployment, ...]
    groups: tuple[Group, ...]
    nodes: tuple[Node, ...]
    troubles: tuple[str, ...]

    @property
    def ready(self) -> bool:
        return self.verdict.phase is Phase.READY


def look(cluster: Cluster, service: dict[str, Any]) -> Report:
    """Raises DeployError."""
    state = RayServiceState.of(service)
    clusters = tuple(each for each in (state.active, state.pending) if each.name)
    pods = pods_of(cluster, *(each.name for each in clusters)) if clusters else []
    return Report(
        name=state.name,
        verdict=judge(state, state.generation),
        endpoints=state.endpoints,
        clusters=tuple(each.name for each in clusters),
        deployments=tuple(d for each in clusters for a in each.applications for d in a.deployments),
        groups=tuple(_groups(pods)),
        nodes=tuple(_nodes(cluster, pods)),
        troubles=tuple(trouble for each in clusters for trouble in troubles(cluster, each.name)),
    )


def _groups(pods: Iterable[Any]) -> list[Group]:
    found: dict[tuple[str, str], list[bool]] = {}
    for pod in pods:
        key = labels(pod)[RAY_CLUSTER], labels(pod).get(RAY_GROUP, "")
        found.setdefault(key, []).append(is_ready(pod))
    return [Group(*key, sum(ready), len(ready)) for key, ready in sorted(found.items())]


def _nodes(cluster: Cluster, pods: Iterable[Any]) -> list[Node]:
    counts: dict[str, int] = {}
    for pod in pods:
        if pod.spec.node_name:
            counts[pod.spec.node_name] = counts.get(pod.spec.node_name, 0) + 1
    with explained("nodes"):
        nodes = [node for node in cluster.core.list_node().items if node.metadata.name in counts]
    return [_node(node, counts[node.metadata.name]) for node in nodes]


def _node(node: Any, pods: int) -> Node:
    told = labels(node)
    capacity = next((told[label] for label in _CAPACITY if label in told), "")
    return Node(
        name=node.metadata.name,
        machine=told.get(_MACHINE, ""),
        capacity=capacity.lower().replace("_", "-"),
        zone=told.get(_ZONE, ""),
        cordoned=bool(node.spec.unschedulable),
        pods=pods,
    )
