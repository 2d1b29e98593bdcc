"""What an attacker would like to find in the pods, and does not."""

from __future__ import annotations

import pytest
from charts import EXAMPLES, Document, cluster_of, of_kind, render, templates_of, the

pytestmark = pytest.mark.parametrize("example", EXAMPLES)

RAY_PORTS = {6379, 8265, 10001, 52365}
QUEUE = "https://sqs.eu-central-1.amazonaws.com/111122223333/canopy-drain"


def test_pods_can_do_little(example: str) -> None:
    for template in templates_of(render(example)):
        pod = template["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["enableServiceLinks"] is False
        for container in pod["containers"]:
            check_container(container["securityContext"])
            assert {"cpu", "memory"} <= set(container["resources"]["requests"])
            assert "memory" in container["resources"]["limits"]
    check_container(cluster_of(render(example))["autoscalerOptions"]["securityContext"])


def check_container(security: Document) -> None:
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}


def test_of_rays_pods_only_the_head_may_ask_kubernetes(example: str) -> None:
    head, *workers = templates_of(render(example))
    assert "automountServiceAccountToken" not in head["spec"]
    assert all(worker["spec"]["automountServiceAccountToken"] is False for worker in workers)
    accounts = {a["metadata"]["name"]: a for a in of_kind(render(example), "ServiceAccount")}
    assert accounts["canopy-head"]["automountServiceAccountToken"] is True
    assert {t["spec"]["serviceAccountName"] for t in templates_of(render(example))} <= set(accounts)


def test_the_drainer_may_empty_nodes_and_nothing_else(example: str) -> None:
    """And run commands only in pods of its own namespace."""
    drained = render(example, "drainer.enabled=true", f"drainer.queueUrl={QUEUE}")
    pod = the(drained, "Deployment", "canopy-drainer")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    check_container(pod["containers"][0]["securityContext"])
    assert pod["serviceAccountName"] == "canopy-drainer"
    assert allowed(the(drained, "ClusterRole", "canopy-canopy-drainer")) == {
        ("nodes", "get list patch"),
        ("pods", "list"),
        ("pods/eviction", "create"),
    }
    assert allowed(the(drained, "Role", "canopy-drainer")) == {("pods/exec", "get create")}
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        (binding,) = of_kind(drained, kind)
        account = {"kind": "ServiceAccount", "name": "canopy-drainer", "namespace": "canopy"}
        assert binding["subjects"] == [account]


def allowed(role: Document) -> set[tuple[str, str]]:
    return {(kind, " ".join(rule["verbs"])) for rule in role["rules"] for kind in rule["resources"]}


def test_everything_is_denied_that_no_policy_allows(example: str) -> None:
    denied = the(render(example), "NetworkPolicy", "canopy-default-deny")["spec"]
    assert denied == {
        "podSelector": {"matchLabels": {"app.kubernetes.io/instance": "canopy"}},
        "policyTypes": ["Ingress", "Egress"],
    }
    for template in templates_of(render(example)):
        assert template["metadata"]["labels"]["app.kubernetes.io/instance"] == "canopy"


def test_rays_ports_are_for_ray_and_its_operator(example: str) -> None:
    for policy in of_kind(render(example), "NetworkPolicy"):
        for rule in policy["spec"].get("ingress", []):
            ports = {port["port"] for port in rule.get("ports", [])}
            if policy["metadata"]["name"] == "canopy-operator":
                assert ports == {8265, 8000}
            elif not ports:  # all of them
                assert rule["from"] == [
                    {"podSelector": {"matchLabels": {"app.kubernetes.io/instance": "canopy"}}}
                ]
            else:
                assert not ports & RAY_PORTS


def test_no_pod_reaches_the_nodes_credentials(example: str) -> None:
    for policy in of_kind(render(example), "NetworkPolicy"):
        for rule in policy["spec"].get("egress", []):
            for peer in rule.get("to", []):
                block = peer.get("ipBlock", {})
                assert block.get("cidr") != "0.0.0.0/0" or block["except"] == ["169.254.169.254/32"]
