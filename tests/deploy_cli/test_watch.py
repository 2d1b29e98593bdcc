"""`watch-interruptions`: SQS and a Kubernetes API, both over HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import boto3
import pytest
from aws_server import CommandLine
from fake_kubernetes import FakeKubernetes, Object, Refusal

QUEUE = "canopy-drain"
SPOT = "EC2 Spot Instance Interruption Warning"
REBALANCE = "EC2 Instance Rebalance Recommendation"
STATE = "EC2 Instance State-change Notification"
HEALTH = "AWS Health Event"
INSTANCE = {"instance-id": "i-1", "instance-action": "terminate"}


class Inbox:
    """The queue, from EventBridge's side."""

    def __init__(self) -> None:
        self.client = boto3.Session().client("sqs")
        self.url = self.client.create_queue(QueueName=QUEUE)["QueueUrl"]

    def put(self, kind: str, **detail: Any) -> None:
        self.put_text(json.dumps({"version": "0", "source": "aws", "detail-type": kind, "detail": detail}))

    def put_text(self, text: str) -> None:
        self.client.send_message(QueueUrl=self.url, MessageBody=text)

    @property
    def left(self) -> int:
        """Messages in it, seen or not."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        told = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
        return sum(int(told[name]) for name in names)


@pytest.fixture
def inbox(aws: str) -> Inbox:
    return Inbox()


@pytest.fixture
def kubernetes(cluster: FakeKubernetes) -> FakeKubernetes:
    """Two nodes with a pod each; the first is the machine i-1."""
    owners = [{"apiVersion": "v1", "kind": "RayCluster", "name": "owner", "uid": "1"}]
    for number in (1, 2):
        cluster.put("Node", f"node-{number}", spec={"providerID": f"aws:///us-east-1a/i-{number}"})
        cluster.put(
            "Pod",
            f"verifier-{number}",
            metadata={
                "labels": {"ray.io/node-type": "worker"},
                "ownerReferences": owners,
                "namespace": "canopy",
            },
            spec={"nodeName": f"node-{number}"},
            status={"phase": "Running"},
        )
    return cluster


def watch(deploy: CommandLine, *flags: str) -> Any:
    return deploy("watch-interruptions", QUEUE, "--once", "--poll", 0.05, *flags)


def pods(kubernetes: FakeKubernetes) -> set[str]:
    return {name for kind, name in kubernetes.objects if kind == "Pod"}


@pytest.mark.parametrize(
    ("kind", "detail"),
    [
        (SPOT, INSTANCE),
        (REBALANCE, {"instance-id": "i-1"}),
        (STATE, {"instance-id": "i-1", "state": "shutting-down"}),
        (
            HEALTH,
            {
                "service": "EC2",
                "eventTypeCategory": "scheduledChange",
                "affectedEntities": [{"entityValue": "i-elsewhere"}, {"entityValue": "i-1"}],
            },
        ),
    ],
)
def test_the_node_of_a_machine_that_goes_is_drained(
    kubernetes: FakeKubernetes, inbox: Inbox, deploy: CommandLine, kind: str, detail: Any
) -> None:
    told: list[list[str]] = []

    def ray(pod: str, command: list[str]) -> tuple[str, int]:
        told.append([pod, *command])
        return "", 0

    kubernetes.on_exec = ray
    inbox.put(kind, **detail)
    assert watch(deploy).status == 0
    assert kubernetes.get("Node", "node-1")["spec"]["unschedulable"]
    assert pods(kubernetes) == {"verifier-2"}
    assert [command[0] for command in told] == ["verifier-1"]
    assert kind in told[0]  # why, for Ray's log
    assert inbox.left == 0


def test_what_concerns_no_node_is_dropped(
    kubernetes: FakeKubernetes, inbox: Inbox, deploy: CommandLine
) -> None:
    inbox.put(SPOT, **{"instance-id": "i-of-somebody-else"})
    inbox.put(STATE, **{"instance-id": "i-1", "state": "running"})
    inbox.put(STATE, **{"instance-id": "i-1", "state": "terminated"})
    inbox.put(HEALTH, service="EC2", eventTypeCategory="issue", affectedEntities=[{"entityValue": "i-1"}])
    inbox.put("EC2 Fleet Error", **INSTANCE)
    inbox.put(SPOT)
    inbox.put_text("no JSON")
    assert watch(deploy).status == 0
    assert pods(kubernetes) == {"verifier-1", "verifier-2"}
    assert inbox.left == 0


def test_recommendations_may_be_ignored(
    kubernetes: FakeKubernetes, inbox: Inbox, deploy: CommandLine
) -> None:
    inbox.put(REBALANCE, **INSTANCE)
    assert watch(deploy, "--ignore-rebalance").status == 0
    assert pods(kubernetes) == {"verifier-1", "verifier-2"}
    assert inbox.left == 0


def test_several_at_once_and_the_same_again(
    kubernetes: FakeKubernetes, inbox: Inbox, deploy: CommandLine
) -> None:
    """Two drains hold each other up unless they run at the same time: each waits for the other's eviction."""
    both = threading.Barrier(2, timeout=60)

    def ray(pod: str, command: list[str]) -> tuple[str, int]:
        both.wait()
        return "", 0

    kubernetes.on_exec = ray
    inbox.put(SPOT, **INSTANCE)
    inbox.put(SPOT, **{**INSTANCE, "instance-id": "i-2"})
    assert watch(deploy).status == 0
    assert pods(kubernetes) == set()
    inbox.put(SPOT, **INSTANCE)
    assert watch(deploy).status == 0
    assert inbox.left == 0


def test_a_message_that_is_not_handled_is_kept(
    kubernetes: FakeKubernetes, inbox: Inbox, deploy: CommandLine
) -> None:
    kubernetes.forbidden.add(("patch", "nodes"))
    inbox.put(SPOT, **INSTANCE)
    ran = watch(deploy)
    assert ran.status == 3
    assert "1 messages could not be handled" in ran.error
    assert inbox.left == 1
    kubernetes.forbidden.clear()
    inbox.client.purge_queue(QueueUrl=inbox.url)
    inbox.put(SPOT, **INSTANCE)

    def broken(pod: Object) -> None:
        raise Refusal(500, "etcd is gone")

    kubernetes.on_evict = broken
    assert watch(deploy).status == 3
    assert inbox.left == 1


@pytest.mark.slow
def test_it_goes_on_until_it_is_told_to_stop(
    kubernetes: FakeKubernetes, inbox: Inbox, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "deploy", "watch-interruptions", inbox.url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ.copy()) as process:
        try:
            inbox.put(SPOT, **INSTANCE)
            wait_until(lambda: pods(kubernetes) == {"verifier-2"})
            inbox.put(SPOT, **{**INSTANCE, "instance-id": "i-2"})
            wait_until(lambda: pods(kubernetes) == set() and inbox.left == 0)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 130
        finally:
            process.kill()
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_one_sentence_for_what_is_wrong(
    kubernetes: FakeKubernetes, aws: str, deploy: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert watch(deploy).error == f"queue {QUEUE}: there is no such queue in this account and region."
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert "no AWS credentials" in watch(deploy).error
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert "no AWS region" in watch(deploy).error
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", "/nonexistent")
    assert watch(deploy).error.startswith("no cluster: ")
