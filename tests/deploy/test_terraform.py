"""The charts and the large stack call the same things by the same names."""

from __future__ import annotations

import re

from charts import NODES, ROOT, of_kind, render, the

STACK = ROOT / "terraform" / "stacks" / "large"


def default_of(variable: str) -> str:
    text = (STACK / "variables.tf").read_text()
    (found,) = re.findall(rf'^variable "{variable}" \{{.*?^  default     = "(.+?)"$', text, re.M | re.S)
    return str(found)


def accounts_with_roles() -> set[str]:
    """Service accounts of the release that roles.tf gives a role, of a release by the default name."""
    names = set()
    for body in re.findall(r'^module "\w+" \{$.*?^\}$', (STACK / "roles.tf").read_text(), re.M | re.S):
        for account in re.findall(r'service_account = "(\$\{var\.release\}.+)"', body):
            keys = re.findall(r'"(\w+)"', "".join(re.findall(r"for_each += toset\((.+)\)", body))) or [""]
            names |= {account.replace("${each.key}", key) for key in keys}
    return {name.replace("${var.release}", default_of("release")) for name in names}


def test_service_accounts_that_get_roles_are_the_charts() -> None:
    accounts = of_kind(render("70b-tp4"), "ServiceAccount")
    assert accounts_with_roles() == {"canopy-verifier", "canopy-drafter", "canopy-drainer"}
    assert accounts_with_roles() <= {account["metadata"]["name"] for account in accounts}
    assert default_of("namespace") == "canopy"  # as the chart's README installs it
    for account in accounts:  # the SDKs would prefer IRSA's role to that of Pod Identity
        assert "annotations" not in account["metadata"]


def test_the_drainer_reads_the_queue_that_is_its_own() -> None:
    text = (STACK / "karpenter.tf").read_text()
    (queue,) = re.findall(r'module "drain_notices" \{.*?name   = "\$\{var\.name\}(.+?)"', text, re.S)
    pod = the(render("70b-tp4"), "Deployment", "canopy-drainer")["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"][-1].endswith(f"/{default_of('name')}{queue}")


def test_nodes_of_the_large_stack_have_its_instance_profile() -> None:
    """Karpenter cannot make one: IAM is not reached from the VPC."""
    text = (ROOT / "terraform" / "modules" / "karpenter" / "main.tf").read_text()
    (suffix,) = re.findall(r'node += "\$\{var\.cluster\.name\}(.+)"', text)
    classes = of_kind(render("70b-tp4", chart=NODES), "EC2NodeClass")
    assert {c["spec"]["instanceProfile"] for c in classes} == {f"{default_of('name')}{suffix}"}
    assert all("role" not in c["spec"] for c in classes)
    assert all("instanceProfile" not in c["spec"] for c in of_kind(render("8b", chart=NODES), "EC2NodeClass"))
