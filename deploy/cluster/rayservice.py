"""A RayService (KubeRay 1.x), as its status tells it."""

from __future__ import annotations

from typing import Any, NamedTuple

from kubernetes.client.exceptions import ApiException

from deploy.cluster.connection import Cluster
from deploy.cluster.errors import explained
from deploy.errors import DeployError

GROUP, VERSION, PLURAL = "ray.io", "v1", "rayservices"
READY, UNDER_WAY = "Ready", "InProgress"


class ServeDeployment(NamedTuple):
    """Of Ray Serve. `status`: HEALTHY, UPDATING, UNHEALTHY, ..."""

    application: str
    name: str
    status: str
    message: str


class ServeApplication(NamedTuple):
    """`status`: RUNNING, DEPLOYING, DEPLOY_FAILED, UNHEALTHY, ..."""

    name: str
    status: str
    message: str
    deployments: tuple[ServeDeployment, ...]


class RayClusterState(NamedTuple):
    """`name`: empty where there is none."""

    name: str
    applications: tuple[ServeApplication, ...]


class RayServiceState(NamedTuple):
    """`observed`: the generation that the rest is about. `conditions`: True, False or Unknown by type."""

    name: str
    generation: int
    observed: int
    endpoints: int
    conditions: dict[str, str]
    active: RayClusterState
    pending: RayClusterState

    @classmethod
    def of(cls, manifest: dict[str, Any]) -> RayServiceState:
        status = manifest.get("status", {})
        return cls(
            name=manifest["metadata"]["name"],
            generation=manifest["metadata"].get("generation", 0),
            observed=status.get("observedGeneration", 0),
            endpoints=status.get("numServeEndpoints", 0),
            conditions={entry["type"]: entry["status"] for entry in status.get("conditions", [])},
            active=_cluster(status.get("activeServiceStatus", {})),
            pending=_cluster(status.get("pendingServiceStatus", {})),
        )

    def has(self, condition: str) -> bool:
        return self.conditions.get(condition) == "True"

    @property
    def changing(self) -> bool:
        """Whether another Ray cluster is being brought up, or back: conditions such as UpgradeInProgress."""
        under_way = (condition for condition in self.conditions if condition.endswith(UNDER_WAY))
        return bool(self.pending.name) or any(self.has(condition) for condition in under_way)

    @property
    def newest(self) -> RayClusterState:
        """Where the newest version is being brought up, or runs."""
        return self.pending if self.pending.name else self.active


def find(cluster: Cluster, name: str) -> dict[str, Any] | None:
    """The object; None when there is none of this name. Raises DeployError."""
    with explained(f"RayService {name}"):
        try:
            found: dict[str, Any] = cluster.custom.get_namespaced_custom_object(
                GROUP, VERSION, cluster.namespace, PLURAL, name
            )
        except ApiException as error:
            if error.status == 404:
                return None
            raise
        return found


def find_all(cluster: Cluster) -> list[dict[str, Any]]:
    """Of the namespace. Raises DeployError."""
    with explained("RayServices"):
        listed = cluster.custom.list_namespaced_custom_object(GROUP, VERSION, cluster.namespace, PLURAL)
        return list(listed["items"])


def find_only(cluster: Cluster, name: str | None) -> dict[str, Any]:
    """The one of this name, or the only one of the namespace. Raises DeployError."""
    if name is not None:
        found = find(cluster, name)
        if found is None:
            raise DeployError(f"there is no RayService {name} in namespace {cluster.namespace}.")
        return found
    all_ = find_all(cluster)
    if len(all_) != 1:
        names = ", ".join(item["metadata"]["name"] for item in all_) or "none"
        raise DeployError(f"namespace {cluster.namespace} has not one RayService ({names}); name it.")
    return all_[0]


def _cluster(status: dict[str, Any]) -> RayClusterState:
    applications = status.get("applicationStatuses") or {}
    return RayClusterState(
        status.get("rayClusterName", ""),
        tuple(_application(name, each) for name, each in applications.items()),
    )


def _application(name: str, status: dict[str, Any]) -> ServeApplication:
    deployments = status.get("serveDeploymentStatuses") or {}
    return ServeApplication(
        name=name,
        status=status.get("status", ""),
        message=status.get("message", ""),
        deployments=tuple(
            ServeDeployment(name, key, each.get("status", ""), each.get("message", ""))
            for key, each in deployments.items()
        ),
    )
