"""`drain` against a Kubernetes API over HTTP, whose exec streams answer for Ray."""

from __future__ import annotations

from typing import Any

import pytest
from aws_server import CommandLine, Ran
from fake_kubernetes import FakeKubernetes, Object, Refusal

NODE = "gpu-1"


def put_pod(
    cluster: FakeKubernetes, name: str, node: str = NODE, owner: str = "RayCluster", **labels: str
) -> Object:
    owners = [{"apiVersion": "v1", "kind": owner, "name": "owner", "uid": "1"}] if owner else []
    metadata = {"namespace": "canopy", "labels": labels, "ownerReferences": owners}
    return cluster.put("Pod", name, metadata=metadata, spec={"nodeName": node}, status={"phase": "Running"})


@pytest.fixture
def kubernetes(cluster: FakeKubernetes) -> FakeKubernetes:
    """A node with a Ray worker, a plain pod and a DaemonSet's, and another node."""
    cluster.put("Node", NODE)
    cluster.put("Node", "gpu-2")
    put_pod(cluster, "verifier", **{"ray.io/node-type": "worker"})
    put_pod(cluster, "dns", owner="ReplicaSet")
    put_pod(cluster, "exporter", owner="DaemonSet")
    put_pod(cluster, "elsewhere", node="gpu-2")
    return cluster


@pytest.fixture
def drain(deploy: CommandLine) -> Any:
    def run(*flags: object, node: str = NODE, deadline: float = 60) -> Ran:
        return deploy("drain", node, "--poll", 0.05, "--deadline", deadline, *flags)

    return run


def pods(kubernetes: FakeKubernetes) -> set[str]:
    return {name for kind, name in kubernetes.objects if kind == "Pod"}


def test_cordon_then_ray_then_evict(kubernetes: FakeKubernetes, drain: Any) -> None:
    commands: list[list[str]] = []

    def ray(pod: str, command: list[str]) -> tuple[str, int]:
        commands.append([pod, *command])
        return "", 0

    kubernetes.on_exec = ray
    ran = drain()
    assert ran.status == 0, ran.err
    assert kubernetes.get("Node", NODE)["spec"]["unschedulable"]
    assert pods(kubernetes) == {"exporter", "elsewhere"}
    ((pod, *command),) = commands
    assert pod == "verifier"
    assert "drain-node" in command
    assert command[command.index("--reason") + 1] == "DRAIN_NODE_REASON_PREEMPTION"
    steps = [line for line in kubernetes.log if not line.startswith(("list", "get"))]
    assert steps == [
        "patch nodes gpu-1",
        "create pods/exec verifier",
        "create pods/eviction verifier",
        "create pods/eviction dns",
    ]


def test_the_command_is_one_that_ray_has() -> None:
    from click.testing import CliRunner
    from ray.scripts.scripts import cli

    usage = CliRunner().invoke(cli, ["drain-node", "--help"]).output
    for option in (
        "--reason",
        "--reason-message",
        "--deadline-remaining-seconds",
        "DRAIN_NODE_REASON_PREEMPTION",
    ):
        assert option in usage


def test_a_budget_is_waited_for(kubernetes: FakeKubernetes, drain: Any) -> None:
    refusals = iter([True, True])

    def budget(pod: Object) -> None:
        if pod["metadata"]["name"] == "verifier" and next(refusals, False):
            raise Refusal(429, "Cannot evict pod as it would violate the pod's disruption budget.")
        kubernetes.delete(pod)

    kubernetes.on_evict = budget
    assert drain().status == 0
    assert kubernetes.log.count("create pods/eviction verifier") == 3
    assert kubernetes.log.count("create pods/eviction dns") == 1


def test_a_budget_that_never_yields(kubernetes: FakeKubernetes, drain: Any) -> None:
    def budget(pod: Object) -> None:
        raise Refusal(429, "no")

    kubernetes.on_evict = budget
    ran = drain(deadline=1)
    assert ran.status == 3
    assert ran.error == "after 1 s a disruption budget keeps verifier, dns."


def test_pods_that_take_too_long_to_end(kubernetes: FakeKubernetes, drain: Any) -> None:
    def ending(pod: Object) -> None:
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    kubernetes.on_evict = ending
    ran = drain(deadline=1)
    assert ran.status == 3
    assert ran.error == "after 1 s verifier, dns still ends."
    kubernetes.log.clear()
    drain(deadline=1)
    assert "create pods/eviction verifier" not in kubernetes.log  # told already


@pytest.mark.parametrize("trouble", ["denied", "failed"])
def test_without_ray_pods_are_evicted_all_the_same(
    kubernetes: FakeKubernetes, drain: Any, trouble: str
) -> None:
    if trouble == "denied":
        kubernetes.forbidden.add(("create", "pods/exec"))
    kubernetes.on_exec = lambda pod, command: ("Traceback:\nConnectionError: no GCS.\n", 1)
    ran = drain()
    assert ran.status == 0
    assert "ray drain-node in verifier" in ran.err
    assert "It is evicted all the same." in ran.err
    assert trouble == "denied" or "failed: ConnectionError: no GCS. It" in ran.err
    assert "verifier" not in pods(kubernetes)


def test_pods_that_nothing_would_start_again(kubernetes: FakeKubernetes, drain: Any) -> None:
    put_pod(kubernetes, "lonely", owner="")
    ran = drain()
    assert ran.status == 1
    assert "nothing would start lonely again" in ran.error
    assert "unschedulable" not in kubernetes.get("Node", NODE).get("spec", {})
    assert drain("--force").status == 0
    assert "lonely" not in pods(kubernetes)


def test_one_sentence_for_what_is_wrong(kubernetes: FakeKubernetes, drain: Any) -> None:
    assert drain(node="nowhere").error == 'node nowhere: not found: nodes "nowhere" not found.'
    kubernetes.forbidden.add(("patch", "nodes"))
    assert drain().error.startswith("node gpu-1: not permitted: nodes is forbidden")
    assert "verifier" in pods(kubernetes)
