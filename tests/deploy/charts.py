"""The charts as Helm renders them. What needs Helm is marked `deploy`: `make check-deploy` brings it."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "k8s" / "chart"
NODES = ROOT / "k8s" / "karpenter"
EXAMPLES = sorted(path.stem for path in (CHART / "examples").glob("*.yaml"))

Document = dict[str, Any]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / ".tools" / "bin"), os.environ["PATH"]])
    program = shutil.which("helm", path=path)
    assert program, "helm is missing: run `make check-deploy`, which brings it"
    return subprocess.run([program, *arguments], capture_output=True, text=True)


@functools.cache
def render(example: str, *values: str, chart: Path = CHART) -> list[Document]:
    """The documents for an example, with `values` as for Helm's --set."""
    done = template(example, *values, chart=chart)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def template(example: str, *values: str, chart: Path = CHART) -> subprocess.CompletedProcess[str]:
    file = chart / "examples" / f"{example}.yaml"
    sets = [part for value in values for part in ("--set", value)]
    return helm(
        *("template", "canopy", str(chart), "--namespace", "canopy", "--kube-version", "1.33.0"),
        *("--values", str(file), *sets),
    )


def of_kind(documents: list[Document], kind: str) -> list[Document]:
    return [document for document in documents if document["kind"] == kind]


def the(documents: list[Document], kind: str, name: str = "canopy") -> Document:
    (found,) = (d for d in of_kind(documents, kind) if d["metadata"]["name"] == name)
    return found


def cluster_of(documents: list[Document]) -> Document:
    return the(documents, "RayService")["spec"]["rayClusterConfig"]


def groups_of(documents: list[Document]) -> list[Document]:
    return cluster_of(documents)["workerGroupSpecs"]


def templates_of(documents: list[Document]) -> list[Document]:
    """The pod templates: the head's first."""
    cluster = cluster_of(documents)
    return [group["template"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


def serve_config_of(documents: list[Document]) -> Document:
    return yaml.safe_load(the(documents, "RayService")["spec"]["serveConfigV2"])
