"""Telling Ray that a node is going: Serve then starts the replicas of that node elsewhere first."""

from __future__ import annotations

import json
from typing import Any

from kubernetes.stream import stream

from deploy.cluster.connection import Cluster
from deploy.cluster.errors import explained
from deploy.cluster.pods import RAY_TYPE, WORKER, labels
from deploy.errors import DeployError

_TIMEOUT_S = 30
_STATUS_CHANNEL = 3


def is_worker(pod: Any) -> bool:
    """Whether this is a Ray node that can be drained: heads cannot."""
    return labels(pod).get(RAY_TYPE) == WORKER and pod.status.phase == "Running"


def drain(cluster: Cluster, pod: Any, why: str, deadline_s: int) -> None:
    """Inside the pod, where Ray's address and token are. Raises DeployError."""
    name = pod.metadata.name
    command = [
        *("ray", "drain-node", "--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", why),
        *("--deadline-remaining-seconds", str(deadline_s)),
    ]
    with explained(f"ray drain-node in {name}"):
        answer = stream(
            cluster.another().core.connect_get_namespaced_pod_exec,  # opening a stream changes the client
            name,
            pod.metadata.namespace or cluster.namespace,
            container=pod.spec.containers[0].name,  # KubeRay wants Ray in the first one
            command=[
                "/bin/sh",
                "-lc",
                'exec "$@"',
                "sh",
                *command,
            ],  # a login shell: its profile knows where ray is
            stdout=True,
            stderr=True,
            stdin=False,
            tty=False,
            _preload_content=False,
        )
        try:
            answer.run_forever(timeout=_TIMEOUT_S)
            said = f"{answer.read_stdout(timeout=0)}{answer.read_stderr(timeout=0)}"
            status = json.loads(answer.read_channel(_STATUS_CHANNEL) or '{"status": "no answer in time"}')
        finally:
            answer.close()
    if status["status"] != "Success":
        last = (said.strip().splitlines() or [str(status.get("message", status["status"]))])[-1]
        raise DeployError(f"ray drain-node in {name} failed: {last.rstrip('.')}.")
