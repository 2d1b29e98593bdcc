"""Server-side apply: the cluster merges, and says who else owns a field that would change."""

from __future__ import annotations

from typing import Any

from kubernetes.dynamic.exceptions import ResourceNotFoundError

from deploy.cluster.connection import Cluster
from deploy.cluster.errors import explained
from deploy.errors import DeployError
from deploy.rollout.manifests import Object

MANAGER = "canopy-deploy"


def apply(cluster: Cluster, manifest: Object, force: bool) -> Object:
    """What the object is now. `force`: take over fields that another tool has set. Raises DeployError."""
    what = f"{manifest['kind']} {manifest['metadata']['name']}"
    with explained(what):
        kind = _kind(cluster, manifest, what)
        namespace = manifest["metadata"].get("namespace", cluster.namespace) if kind.namespaced else None
        answer = cluster.dynamic.server_side_apply(
            kind, manifest, namespace=namespace, field_manager=MANAGER, force_conflicts=force
        )
        result: Object = answer.to_dict()
        return result


def _kind(cluster: Cluster, manifest: Object, what: str) -> Any:
    try:
        return cluster.dynamic.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
    except ResourceNotFoundError as error:
        raise DeployError(
            f"{what}: the cluster knows no {manifest['kind']} of {manifest['apiVersion']}; "
            "install its operator, or leave the object out."
        ) from error
