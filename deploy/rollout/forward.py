"""HTTP to a pod behind a Service through the Kubernetes API, where no route leads from here to the pods."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

from kubernetes.stream import portforward

from deploy.cluster.connection import Cluster
from deploy.cluster.errors import explained
from deploy.cluster.pods import is_ready
from deploy.errors import NotHealthyError

PORT = 8000


class _Forwarded(HTTPConnection):
    def __init__(self, forwarding: Any, timeout: float) -> None:
        super().__init__("canopy")
        self._forwarding, self._seconds = forwarding, timeout

    def connect(self) -> None:
        self.sock = self._forwarding.socket(PORT)
        self.sock.settimeout(self._seconds)


@contextmanager
def connection_to(cluster: Cluster, service: str, timeout: float) -> Iterator[HTTPConnection]:
    """To one of the ready pods that KubeRay's Service of a RayService selects.

    Raises NotHealthyError when there is none, DeployError.
    """
    pod = _ready_pod(cluster, f"{service}-serve-svc")
    with explained(f"port-forward to {pod}"):
        api = cluster.another().core  # opening a stream changes the client
        forwarding = portforward(
            api.connect_get_namespaced_pod_portforward, pod, cluster.namespace, ports=str(PORT)
        )
    try:
        yield _Forwarded(forwarding, timeout)
    finally:
        forwarding.close()


def _ready_pod(cluster: Cluster, service: str) -> str:
    with explained(f"Service {service}"):
        selector = cluster.core.read_namespaced_service(service, cluster.namespace).spec.selector
        wanted = ",".join(f"{key}={value}" for key, value in selector.items())
        pods = cluster.core.list_namespaced_pod(cluster.namespace, label_selector=wanted).items
    ready = [pod.metadata.name for pod in pods if is_ready(pod)]
    if not ready:
        raise NotHealthyError(f"Service {service} has no ready pod.")
    return str(ready[0])
