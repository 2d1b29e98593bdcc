"""What manifests, alarms and the image call by name exists: metrics, variables, flags, paths, modules."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import ray
import yaml
from charts import CHART, EXAMPLES, NODES, ROOT, cluster_of, render, templates_of, the
from metric_names import NEIGHBOURS, RAY, service_metrics
from ray.scripts.scripts import start
from ray.serve.scripts import cli as serve

from serving.app import build
from serving.config import ServeConfig
from serving.config_values import PREFIX, settings_of
from serving.models.default_model import WHEEL_VARIABLE
from serving.router.service import Service

ALARMS = yaml.safe_load((CHART / "files" / "alarms.yaml").read_text())["alarms"]
TEXTS = [
    *(path for path in (ROOT / "deploy").iterdir() if path.is_file()),
    *(
        path
        for chart in (CHART, NODES)
        for path in chart.rglob("*")
        if path.suffix in {".yaml", ".tpl", ".md"}
    ),
]
SERIES = re.compile(r"\b(?:vllm|canopy):\w+|\b(?:ray|karpenter|kube|DCGM)_\w+(?=[{\s\[)]|$)")


def test_metrics_of_dashboards_and_alarms_exist() -> None:
    dashboard = json.loads((CHART / "files" / "dashboard.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    expressions += [alarm["expr"] for alarm in ALARMS]
    named = {name for expression in expressions for name in SERIES.findall(expression)}
    known = {*service_metrics(), *RAY, *NEIGHBOURS}
    assert named <= known
    assert {*RAY, *NEIGHBOURS} <= named  # neither list holds what nobody asks for


def test_settings_and_variables_exist() -> None:
    known = {PREFIX + "_".join(path).upper() for path in settings_of(ServeConfig)} | {WHEEL_VARIABLE}
    named = {name for path in TEXTS for name in re.findall(rf"\b{PREFIX}[A-Z0-9_]+", path.read_text())}
    assert named
    assert named <= known


def test_rays_variables_exist() -> None:
    named = {name for path in TEXTS for name in re.findall(r"\bRAY_[A-Z0-9_]+", path.read_text())}
    source = Path(ray.__file__).parent
    files = [source / "_private" / "ray_constants.py", source / "serve" / "_private" / "constants.py"]
    files += [source / "_common" / "usage" / "usage_constants.py"]
    code = "".join(path.read_text() for path in files)
    assert named
    assert not {name for name in named if f'"{name}"' not in code}


@pytest.mark.parametrize("example", EXAMPLES)
def test_flags_of_ray_start_exist(example: str) -> None:
    flags = {option for parameter in start.params for option in parameter.opts}
    cluster = cluster_of(render(example))
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert {f"--{name}" for name in group["rayStartParams"]} <= flags


def test_paths_of_probes_exist() -> None:
    """Ray's own three are asked by test_cluster.py."""
    rays = {"/-/healthz", "/api/gcs_healthz", "/api/local_raylet_healthz"}
    probes = {
        container[probe]["httpGet"]["path"]
        for pod in templates_of(render("one-gpu"))
        for container in pod["spec"]["containers"]
        for probe in ("readinessProbe", "livenessProbe")
    }
    assert probes == rays
    asked = the(render("70b-tp4"), "Ingress")["metadata"]["annotations"]
    assert asked["alb.ingress.kubernetes.io/healthcheck-path"] in routes()


def routes() -> set[str]:
    from serving.api.app import create_app

    app = create_app(Service(ServeConfig(), backend=None))  # type: ignore[arg-type]  # nothing is asked
    return set(app.openapi()["paths"])


def test_the_image_calls_what_there_is() -> None:
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    assert "/health" in routes()
    assert "127.0.0.1:8000/health" in text
    command = json.loads(re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)[-1])
    assert command == ["serve", "run", f"{build.__module__}:{build.__name__}"]
    assert "run" in serve.commands
    for module in re.findall(r"python -m (serving[\w.]*)", text):
        assert importlib.util.find_spec(f"{module}.__main__")


def test_the_drainer_calls_what_there_is() -> None:
    deployment = the(render("70b-tp4", "drainer.ignoreRebalance=true"), "Deployment", "canopy-drainer")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    python, *command, _queue, flag = container["command"]
    done = subprocess.run([sys.executable, *command, "--help"], cwd=ROOT, capture_output=True, text=True)
    assert python == "python"
    assert done.returncode == 0, done.stderr
    assert "QUEUE" in done.stdout.upper()
    assert f"{flag} " in done.stdout
    assert "COPY deploy deploy" in (ROOT / "deploy" / "Dockerfile").read_text()


def test_every_alarm_is_shown_to_fire_and_to_stay_quiet() -> None:
    cases = yaml.safe_load((CHART / "tests" / "alarms.yaml").read_text())["tests"]
    expectations = [case for test in cases for case in test["alert_rule_test"]]
    fires = {case["alertname"] for case in expectations if case["exp_alerts"]}
    quiet = {case["alertname"] for case in expectations if not case["exp_alerts"]}
    names = [alarm["alert"] for alarm in ALARMS]
    assert len(names) == len(set(names))
    assert fires == quiet == set(names)


def test_every_threshold_is_compared_with_and_every_comparison_has_one() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    compared = {alarm["alert"] for alarm in ALARMS if "$threshold" in alarm["expr"]}
    assert set(values["monitoring"]["alarms"]["thresholds"]) == compared


def test_the_schema_names_the_alarms() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    alarms = schema["properties"]["monitoring"]["properties"]["alarms"]["properties"]
    assert alarms["disabled"]["items"]["enum"] == [alarm["alert"] for alarm in ALARMS]
