"""Reaching the cluster."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.dynamic import DynamicClient

from deploy.cluster.errors import explained
from deploy.errors import DeployError

_NAMESPACE_OF_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class Cluster:
    """Clients of one cluster, and the namespace that commands mean. Not for several threads at once."""

    def __init__(self, settings: Any, namespace: str) -> None:
        self._settings = settings
        self.namespace = namespace

    @classmethod
    def connect(cls, context: str | None, namespace: str | None) -> Cluster:
        """By a kubeconfig (KUBECONFIG, else ~/.kube/config), else by the service account of the pod.

        Raises DeployError.
        """
        settings, file = client.Configuration(), os.environ.get("KUBECONFIG", "~/.kube/config")
        with explained("the cluster"):
            if context or any(Path(path).expanduser().is_file() for path in file.split(os.pathsep)):
                config.load_kube_config(file, context, client_configuration=settings)
                return cls(settings, namespace or _namespace_of(file, context))
            try:
                config.load_incluster_config(client_configuration=settings)
            except config.ConfigException as error:
                raise DeployError(
                    "no cluster: there is no kubeconfig (KUBECONFIG or ~/.kube/config), and this is no pod."
                ) from error
        return cls(settings, namespace or _NAMESPACE_OF_POD.read_text().strip())

    def another(self) -> Cluster:
        """The same, for another thread."""
        return Cluster(self._settings, self.namespace)

    @cached_property
    def api(self) -> client.ApiClient:
        return client.ApiClient(self._settings)

    # In the client's types every field of every object may be None; asserting each away would say nothing.
    @cached_property
    def core(self) -> Any:
        return client.CoreV1Api(self.api)

    @cached_property
    def custom(self) -> Any:
        return client.CustomObjectsApi(self.api)

    @cached_property
    def dynamic(self) -> DynamicClient:
        """Knows all kinds of the cluster. Its cache of them is ours alone and only for this process."""
        folder = tempfile.mkdtemp(prefix="canopy-deploy-")
        try:
            return DynamicClient(self.api, cache_file=str(Path(folder) / "kinds.json"))
        finally:
            shutil.rmtree(folder)


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--context", help="of the kubeconfig; else its current one")
    parser.add_argument("-n", "--namespace", help="else that of the context or the pod")


def connect(options: argparse.Namespace) -> Cluster:
    return Cluster.connect(options.context, options.namespace)


def _namespace_of(file: str, context: str | None) -> str:
    contexts, active = config.list_kube_config_contexts(file)
    chosen = next((item for item in contexts if item["name"] == context), active)
    return str(chosen["context"].get("namespace", "default"))
