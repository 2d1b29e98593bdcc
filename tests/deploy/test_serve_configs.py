"""deploy/*.yaml: what `serve run` and `serve deploy` take, with settings that are settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from charts import CHART, ROOT, render, serve_config_of
from ray.serve.config import AutoscalingPolicy
from ray.serve.schema import ServeDeploySchema

from serving.config import ServeConfig
from serving.replicas.drafter import DrafterPool
from serving.replicas.verifier import Verifier
from serving.router.deployment import Router

CONFIGS = sorted((ROOT / "deploy").glob("*.yaml"))
# The same settings, for `serve run` and as an example of the chart.
PAIRS = {"local-cpu": "cpu-kind", "one-gpu": "one-gpu"}


def load(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_ray_serve_takes_it_and_so_do_we(path: Path) -> None:
    config = ServeDeploySchema.model_validate(load(path))
    (application,) = config.applications
    assert application.import_path == "serving.app:build"
    ServeConfig.load(application.args, environ={})
    if application.autoscaling_policy is not None:
        AutoscalingPolicy(**application.autoscaling_policy).get_policy()(
            **application.autoscaling_policy["policy_kwargs"]
        )


@pytest.mark.parametrize("name", PAIRS)
def test_an_example_of_the_chart_has_the_same_settings(name: str) -> None:
    example = load(CHART / "examples" / f"{PAIRS[name]}.yaml")["settings"]
    settings = load(ROOT / "deploy" / f"{name}.yaml")["applications"][0]["args"]
    by_the_chart = {"verifier_gpus"}
    replicas = {name: of for name, of in settings.pop("replicas", {}).items() if name not in by_the_chart}
    assert settings | ({"replicas": replicas} if replicas else {}) == example


def test_the_config_for_eks_is_what_the_chart_renders() -> None:
    assert load(ROOT / "deploy" / "eks.yaml") == serve_config_of(render("70b-tp4"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_deployment_that_is_named_exists(path: Path) -> None:
    (application,) = load(path)["applications"]
    named = {deployment["name"] for deployment in application.get("deployments", [])}
    assert named <= {Router.name, Verifier.name, DrafterPool.name}


def test_serve_build_writes_a_config_of_the_same_form(tmp_path: Path) -> None:
    built = tmp_path / "built.yaml"
    command = [sys.executable, "-m", "ray.serve.scripts", "build", "serving.app:graph", "-o", str(built)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (application,) = ServeDeploySchema.model_validate(load(built)).applications
    assert {d.name for d in application.deployments} == {Router.name, Verifier.name}
