"""`rollout` against a Kubernetes API over HTTP. The tests play KubeRay."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aws_server import CommandLine, Ran
from chat_service import ChatService
from fake_kubernetes import FakeKubernetes, Object

NAME = "canopy"


def kuberay(service: Object) -> None:
    """What KubeRay says of a RayService soon after it changed: its configuration is the name of a fate."""
    fate = service["spec"]["serveConfigV2"]
    application = {"status": "RUNNING", "serveDeploymentStatuses": {"Router": {"status": "HEALTHY"}}}
    if fate == "broken":
        application = {
            "status": "DEPLOY_FAILED",
            "message": "Traceback:\n  ...\nModelLoadError: no such model.",
        }
    if fate == "slow":
        application["serveDeploymentStatuses"] = {"Router": {"status": "UPDATING"}}
    conditions = {"Ready": "True", "UpgradeInProgress": "False"}
    service["status"] = {
        "observedGeneration": service["metadata"]["generation"],
        "numServeEndpoints": 2,
        "conditions": [{"type": kind, "status": status} for kind, status in conditions.items()],
        "activeServiceStatus": {"rayClusterName": "canopy-a", "applicationStatuses": {"canopy": application}},
    }


def manifests(fate: str, **metadata: Any) -> str:
    """What Helm renders, in little."""
    labels = {"app.kubernetes.io/version": fate}
    documents: list[Object] = [
        {"apiVersion": "ray.io/v1", "kind": "RayService", "spec": {"serveConfigV2": fate}},
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"fate": fate}},
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": 1}},
    ]
    for document in documents:
        document["metadata"] = {"name": NAME, "labels": labels, **metadata}
    return "---\n" + yaml.safe_dump_all(documents)


@pytest.fixture
def kubernetes(cluster: FakeKubernetes) -> FakeKubernetes:
    """With KubeRay, and a Service whose pods are told from others."""

    def controller(thing: Object) -> None:
        if thing["kind"] == "RayService":
            kuberay(thing)

    cluster.on_apply = controller
    cluster.put("Service", "canopy-serve-svc", spec={"selector": {"ray.io/serve": "true"}})
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    cluster.put("Pod", "head", metadata={"labels": {}}, spec={"nodeName": "n"}, status=ready)
    cluster.put(
        "Pod", "router", metadata={"labels": {"ray.io/serve": "true"}}, spec={"nodeName": "n"}, status=ready
    )
    return cluster


@pytest.fixture
def chat(kubernetes: FakeKubernetes) -> Iterator[ChatService]:
    with ChatService().serving() as service:
        kubernetes.forward_to = service.address
        yield service


@pytest.fixture
def roll_out(deploy: CommandLine, tmp_path: Path) -> Any:
    def run(fate: str, *flags: object) -> Ran:
        file = tmp_path / "manifests.yaml"
        file.write_text(manifests(fate))
        return deploy("rollout", file, "--poll", 0.05, "--timeout", 1, *flags)

    return run


def fate(kubernetes: FakeKubernetes) -> str:
    return str(kubernetes.get("RayService", NAME)["spec"]["serveConfigV2"])


def test_a_release_is_applied_waited_for_and_asked(
    kubernetes: FakeKubernetes, chat: ChatService, roll_out: Any
) -> None:
    ran = roll_out("good")
    assert ran.status == 0, ran.err
    assert "RayService canopy is rolled out" in ran.out
    assert [line for line in kubernetes.log if line.startswith("patch")] == [
        "patch configmaps canopy",
        "patch poddisruptionbudgets canopy",
        "patch rayservices canopy",  # last: it leans on the others
    ]
    assert "create pods/portforward router" in kubernetes.log
    assert [body["model"] for body in chat.asked] == ["tiny"]


def test_it_waits_until_kuberay_has_seen_this_generation(
    kubernetes: FakeKubernetes, chat: ChatService, roll_out: Any
) -> None:
    roll_out("good")
    kubernetes.on_apply = lambda _: None  # KubeRay hangs: the status is the old one's
    ran = roll_out("good", "--no-rollback")
    assert ran.status == 4
    assert "not ready after 1 s: KubeRay has not seen the change" in ran.error


def test_an_upgrade_under_way_is_not_ready(
    kubernetes: FakeKubernetes, chat: ChatService, roll_out: Any
) -> None:
    def upgrading(thing: Object) -> None:
        if thing["kind"] == "RayService":
            kuberay(thing)
            thing["status"]["pendingServiceStatus"] = {"rayClusterName": "canopy-b"}

    kubernetes.on_apply = upgrading
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff"}}, "name": "", "image": "", "imageID": ""}
    kubernetes.put(
        "Pod",
        "canopy-b-1",
        metadata={"labels": {"ray.io/cluster": "canopy-b", "ray.io/group": "verifier"}},
        status={"containerStatuses": [{**waiting, "ready": False, "restartCount": 0}]},
    )
    error = roll_out("good").error
    assert "Ray cluster canopy-b is being brought up; group verifier waits (ImagePullBackOff)" in error


@pytest.mark.parametrize(
    ("bad", "why"),
    [("broken", "application canopy: ModelLoadError: no such model"), ("slow", "Router is UPDATING")],
)
def test_a_version_that_does_not_come_up_is_rolled_back(
    kubernetes: FakeKubernetes, chat: ChatService, roll_out: Any, bad: str, why: str
) -> None:
    roll_out("good")
    before = kubernetes.get("RayService", NAME)
    ran = roll_out(bad)
    assert ran.status == 3
    assert why in ran.error
    assert "Rolled back; the version before serves again" in ran.error
    after = kubernetes.get("RayService", NAME)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]


def test_a_version_that_does_not_answer_is_rolled_back(
    kubernetes: FakeKubernetes, chat: ChatService, roll_out: Any
) -> None:
    roll_out("good")
    chat.status = 500
    ran = roll_out("another")
    assert ran.status == 3
    assert "/v1/models was answered 500. Rolled back" in ran.error
    chat.status, chat.text = 200, ""
    assert "answers an empty chat completion" in roll_out("another").error
    assert fate(kubernetes) == "good"
    assert roll_out("another", "--no-smoke").status == 0


def test_a_key_that_is_wrong_says_nothing_about_the_version(
    kubernetes: FakeKubernetes, chat: ChatService, roll_out: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    roll_out("good")
    chat.key = "sesame"
    ran = roll_out("another")
    assert ran.status == 1
    assert "ready, but not tested and not rolled back" in ran.error
    assert fate(kubernetes) == "another"
    monkeypatch.setenv("ROLLOUT_API_KEY", "sesame")
    assert roll_out("good").status == 0


def test_the_smoke_test_can_go_the_clients_way(
    kubernetes: FakeKubernetes, chat: ChatService, roll_out: Any
) -> None:
    host, port = chat.address
    assert roll_out("good", "--url", f"http://{host}:{port}").status == 0
    assert not any("portforward" in line for line in kubernetes.log)
    assert "the service does not answer" in roll_out("good", "--url", "http://127.0.0.1:9").error


def test_nothing_to_go_back_to(kubernetes: FakeKubernetes, chat: ChatService, roll_out: Any) -> None:
    ran = roll_out("broken")
    assert ran.status == 4
    assert "There was no version before" in ran.error
    assert fate(kubernetes) == "broken"


def test_going_back_that_fails_too_says_both(
    kubernetes: FakeKubernetes, chat: ChatService, roll_out: Any
) -> None:
    roll_out("good")

    def only_trouble(thing: Object) -> None:
        if thing["kind"] == "RayService":
            kuberay({**thing, "spec": {"serveConfigV2": "broken"}})
            thing["status"] = {"observedGeneration": 0}

    kubernetes.on_apply = only_trouble
    ran = roll_out("another")
    assert ran.status == 4
    assert "Going back failed too" in ran.error


def test_fields_of_another_tool_are_taken_only_by_force(
    kubernetes: FakeKubernetes, chat: ChatService, roll_out: Any
) -> None:
    kubernetes.put("ConfigMap", NAME, metadata={"labels": {"owner": "helm"}})
    refused = roll_out("good")
    assert refused.status == 1
    assert refused.error.startswith("ConfigMap canopy: in conflict: Apply failed with 1 conflict")
    assert "patch rayservices canopy" not in kubernetes.log
    assert roll_out("good", "--force-conflicts").status == 0


def test_standard_input(
    kubernetes: FakeKubernetes, chat: ChatService, deploy: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(manifests("good")))
    assert deploy("rollout", "-", "--poll", 0.05).status == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is no YAML"),
        ("kind: RayService", "without apiVersion, kind or metadata.name"),
        (manifests("good") + "---\n" + manifests("good"), "holds 2 RayServices"),
        ("", "holds 0 RayServices"),
        (
            manifests("good").replace("policy/v1", "policy/v9"),
            "the cluster knows no PodDisruptionBudget of policy/v9",
        ),
    ],
)
def test_manifests_that_cannot_be_rolled_out(
    kubernetes: FakeKubernetes, deploy: CommandLine, tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "manifests.yaml"
    file.write_text(text)
    ran = deploy("rollout", file)
    assert ran.status == 1
    assert why in ran.error
    assert "patch rayservices canopy" not in kubernetes.log


def test_a_chart_needs_helm(
    kubernetes: FakeKubernetes, deploy: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "`helm` is not installed" in deploy("rollout", "--chart", tmp_path).error
    helm = tmp_path / "helm"
    helm.write_text('#!/bin/sh\necho "Error: chart has no $2" >&2\nexit 1\n')
    helm.chmod(0o755)
    assert "helm template failed: chart has no canopy" in deploy("rollout", "--chart", tmp_path).error
    assert "belong to --chart" in deploy("rollout", "-", "--set", "a=b").error


def test_one_sentence_for_a_cluster_that_does_not_help(
    kubernetes: FakeKubernetes, roll_out: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kubernetes.forbidden.add(("patch", "configmaps"))
    denied = roll_out("good")
    assert denied.status == 1
    assert denied.error.startswith("ConfigMap canopy: not permitted: configmaps is forbidden")
    kubernetes.forbidden = {("create", "pods/portforward")}
    assert "port-forward to router: no stream (" in roll_out("good").error
    assert "nowhere" in roll_out("good", "--context", "nowhere").error
    config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    config["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:9"
    (tmp_path / "dead").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "dead"))
    assert "the cluster cannot be reached" in roll_out("good").error
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert roll_out("good").error.startswith("no cluster: there is no kubeconfig")
