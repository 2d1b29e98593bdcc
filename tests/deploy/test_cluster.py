"""The Serve config that the chart renders, on a real Ray cluster whose nodes have roles."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml
from charts import CHART, ROOT, render, serve_config_of
from metric_names import RAY, service_metrics

pytestmark = [pytest.mark.slow, pytest.mark.ray]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """In a process of its own: this one may be part of another cluster."""
    config = tmp_path_factory.mktemp("cluster") / "config.yaml"
    config.write_text(yaml.safe_dump(serve_config_of(render("cpu-kind"))))
    script = str(Path(__file__).with_name("labelled_cluster.py"))
    command = [sys.executable, script, str(config)]
    # With Ray's token, as in the chart: probes and scrapes must do without.
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a-token-of-this-test-0123456789abcdef"}
    environment = os.environ | token | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_every_replica_is_on_a_node_of_its_role(seen: dict[str, Any]) -> None:
    assert seen["roles"] == {"Router": ["router"], "Verifier": ["verifier"], "DrafterPool": ["drafter"]}


def test_it_answers(seen: dict[str, Any]) -> None:
    assert seen["completion_tokens"] > 0


def test_the_dashboard_asks_for_the_token(seen: dict[str, Any]) -> None:
    assert seen["without_token"] == HTTPStatus.UNAUTHORIZED


def test_probes_have_somebody_to_answer_them(seen: dict[str, Any]) -> None:
    assert seen["paths"] == ["/-/healthz", "/health", "/api/gcs_healthz", "/api/local_raylet_healthz"]


def test_ray_exports_what_dashboards_and_alarms_ask_for(seen: dict[str, Any]) -> None:
    assert set(RAY) <= set(seen["ray_metrics"])


def test_the_service_exports_what_the_dashboard_asks_for(seen: dict[str, Any]) -> None:
    """A counter of what has not happened yet has no series: such metrics are only defined."""
    text = (CHART / "files" / "dashboard.json").read_text()
    named = set(re.findall(r"\b(?:vllm|canopy):\w+", text))
    unseen = named - set(seen["service_metrics"])
    assert unseen <= {
        "canopy:calibration_error",
        "canopy:drafter_failures_total",
        "canopy:step_time_ratio_sum",
        "canopy:step_time_ratio_count",
        "canopy:step_tokens_ratio_sum",
        "canopy:step_tokens_ratio_count",
    }
    assert unseen <= service_metrics()
