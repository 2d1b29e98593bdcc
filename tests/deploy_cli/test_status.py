"""`status` against a Kubernetes API over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_server import CommandLine
from fake_kubernetes import FakeKubernetes

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
STUCK = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}],
}


@pytest.fixture
def kubernetes(cluster: FakeKubernetes) -> FakeKubernetes:
    deployments = {"Router": {"status": "HEALTHY"}, "Verifier": {"status": "HEALTHY"}}
    cluster.put(
        "RayService",
        "canopy",
        status={
            "observedGeneration": 1,
            "numServeEndpoints": 2,
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "UpgradeInProgress", "status": "False"},
            ],
            "activeServiceStatus": {
                "rayClusterName": "canopy-a",
                "applicationStatuses": {
                    "canopy": {"status": "RUNNING", "serveDeploymentStatuses": deployments}
                },
            },
        },
    )
    told = {
        "node.kubernetes.io/instance-type": "g6.xlarge",
        "topology.kubernetes.io/zone": "us-east-1a",
        "karpenter.sh/capacity-type": "spot",
    }
    cluster.put("Node", "gpu-1", metadata={"labels": told}, spec={"unschedulable": True})
    cluster.put("Node", "other")
    put_pod(cluster, "v-1", "canopy-a", "verifier", READY, "gpu-1")
    put_pod(cluster, "v-2", "canopy-a", "verifier", STUCK, None)
    put_pod(cluster, "x-1", "another", "verifier", READY, "other")
    return cluster


def put_pod(cluster: FakeKubernetes, name: str, ray: str, group: str, status: Any, node: str | None) -> None:
    labels = {"ray.io/cluster": ray, "ray.io/group": group}
    spec = {"nodeName": node} if node else {}
    cluster.put("Pod", name, metadata={"labels": labels}, spec=spec, status=status)


def test_a_service_its_replicas_pods_and_nodes(kubernetes: FakeKubernetes, deploy: CommandLine) -> None:
    ran = deploy("status")
    assert ran.status == 0
    rows = [line.split() for line in ran.out.splitlines()]
    assert ["canopy", "ready", "2", "canopy-a"] in rows
    assert ["canopy", "Verifier", "HEALTHY", "-"] in rows
    assert ["canopy-a", "verifier", "1/2"] in rows
    assert ["gpu-1", "g6.xlarge", "spot", "us-east-1a", "yes", "1"] in rows
    assert "group verifier is not scheduled (0/3 nodes are available)" in ran.out
    assert "x-1" not in ran.out
    assert "other" not in ran.out


def test_what_is_not_ready_is_said_and_fails(kubernetes: FakeKubernetes, deploy: CommandLine) -> None:
    status = kubernetes.get("RayService", "canopy")["status"]
    status["activeServiceStatus"]["applicationStatuses"]["canopy"]["serveDeploymentStatuses"]["Verifier"] = {
        "status": "UNHEALTHY",
        "message": "out of memory",
    }
    ran = deploy("status", "canopy", "--json")
    assert ran.status == 3
    assert ran.error == "RayService canopy is not ready: Verifier is UNHEALTHY."
    report = json.loads(ran.out)
    assert not report["ready"]
    assert {
        "application": "canopy",
        "name": "Verifier",
        "status": "UNHEALTHY",
        "message": "out of memory",
    } in report["deployments"]


def test_both_clusters_of_an_upgrade(kubernetes: FakeKubernetes, deploy: CommandLine) -> None:
    status = kubernetes.get("RayService", "canopy")["status"]
    status["pendingServiceStatus"] = {"rayClusterName": "canopy-b"}
    put_pod(kubernetes, "b-1", "canopy-b", "router", READY, "gpu-1")
    ran = deploy("status")
    assert ran.status == 3
    rows = [line.split() for line in ran.out.splitlines()]
    assert ["canopy-b", "router", "1/1"] in rows
    assert ["gpu-1", "g6.xlarge", "spot", "us-east-1a", "yes", "2"] in rows


def test_one_sentence_for_what_is_wrong(kubernetes: FakeKubernetes, deploy: CommandLine) -> None:
    assert deploy("status", "nobody").error == "there is no RayService nobody in namespace canopy."
    kubernetes.put("RayService", "second")
    assert "has not one RayService (canopy, second); name it" in deploy("status").error
    kubernetes.forbidden.add(("list", "nodes"))
    denied = deploy("status", "canopy")
    assert denied.status == 1
    assert denied.error.startswith("nodes: not permitted: nodes is forbidden")
