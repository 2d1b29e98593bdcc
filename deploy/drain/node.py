"""Cordon, tell Ray, evict. Everything may be done again, by another process too, without harm."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from deploy.cluster.connection import Cluster
from deploy.cluster.errors import explained
from deploy.drain import ray
from deploy.errors import DeployError, NotHealthyError

_MIRROR = "kubernetes.io/config.mirror"  # of a static pod, which only its kubelet can stop
_DISRUPTION_FORBIDDEN = 429


class Drain(NamedTuple):
    """`why`: goes into Ray's log. `deadline_s`: when the node goes, or at latest is given up.
    `force`: evict pods that nothing would start again. `say`: is told each step.
    """

    cluster: Cluster
    why: str
    deadline_s: float
    poll_s: float
    force: bool
    say: Callable[[str], object]

    def run(self, node: str, until_empty: bool) -> None:
        """Raises DeployError, and NotHealthyError when pods are left at the deadline.

        until_empty: wait until the pods are gone, not only told to go.
        """
        deadline = time.monotonic() + self.deadline_s
        pods = self._pods(node)
        orphans = [_name(pod) for pod in pods if not pod.metadata.owner_references]
        if orphans and not self.force:
            raise DeployError(f"nothing would start {', '.join(orphans)} again; --force evicts them too.")
        self._cordon(node)
        for pod in pods:
            if ray.is_worker(pod):
                self._tell_ray(pod, deadline)
        waiting = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        while waiting := [pod for pod in waiting if not self._evict(pod)]:
            self._sleep(deadline, f"a disruption budget keeps {', '.join(map(_name, waiting))}")
        while until_empty and (left := self._pods(node)):
            self._sleep(deadline, f"{', '.join(map(_name, left))} still ends")
        self.say(f"node {node} is {'empty' if until_empty else 'being left'}")

    def _cordon(self, node: str) -> None:
        with explained(f"node {node}"):
            self.cluster.core.patch_node(node, {"spec": {"unschedulable": True}})
        self.say(f"node {node} takes no new pods")

    def _pods(self, node: str) -> list[Any]:
        """All but those of DaemonSets and of the node itself, which belong there until it ends."""
        with explained(f"node {node}"):
            self.cluster.core.read_node(node)
            pods = self.cluster.core.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={node}").items
        return [pod for pod in pods if _leaves(pod)]

    def _tell_ray(self, pod: Any, deadline: float) -> None:
        """Without it Ray learns of the end when the pod is evicted: later, but not too late."""
        try:
            ray.drain(self.cluster, pod, self.why, max(0, int(deadline - time.monotonic())))
            self.say(f"Ray drains {_name(pod)}")
        except DeployError as error:
            self.say(f"{error} It is evicted all the same.")

    def _evict(self, pod: Any) -> bool:
        """Whether the pod is gone or going; a disruption budget may say not now."""
        name, namespace = pod.metadata.name, pod.metadata.namespace or self.cluster.namespace
        body = client.V1Eviction(metadata=client.V1ObjectMeta(name=name, namespace=namespace))
        with explained(f"pod {name}"):
            try:
                self.cluster.core.create_namespaced_pod_eviction(name, namespace, body)
            except ApiException as error:
                if error.status == _DISRUPTION_FORBIDDEN:
                    return False
                if error.status != 404:
                    raise
        self.say(f"evicted {name}")
        return True

    def _sleep(self, deadline: float, reason: str) -> None:
        if time.monotonic() >= deadline:
            raise NotHealthyError(f"after {self.deadline_s:g} s {reason}.")
        time.sleep(self.poll_s)


def _leaves(pod: Any) -> bool:
    if _MIRROR in (pod.metadata.annotations or {}) or pod.status.phase in ("Succeeded", "Failed"):
        return False
    return all(owner.kind != "DaemonSet" for owner in pod.metadata.owner_references or [])


def _name(pod: Any) -> str:
    return str(pod.metadata.name)
