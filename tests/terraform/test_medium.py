"""What the tasks of the medium stack start: Ray and the service must understand it.

terraform/stacks/medium/tests holds Terraform's side: that the stack starts what stands in started.json.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
from hcl import TERRAFORM
from ray.scripts.scripts import start
from ray.serve.schema import ServeDeploySchema

from serving.config import ServeConfig
from serving.config_values import from_environment
from serving.replicas.workers import FRONT_CPUS, drafter_bundle, verifier_bundle

STARTED = json.loads((TERRAFORM / "stacks/medium/tests/started.json").read_text())


@pytest.fixture
def config() -> ServeConfig:
    """The service's settings, as a task's environment completes them."""
    deployed = ServeDeploySchema.model_validate(STARTED["serve_config"])
    (application,) = deployed.applications
    assert application.import_path == "serving.app:build"
    return ServeConfig.load(application.args, {"CANOPY_ROUTER_API_KEYS": "one,two"})


def ray_start(command: str) -> dict[str, Any]:
    """The options of `ray start` in a task's command, read by Ray's own parser."""
    match = re.search(r"ray start (.*?)(?: && |$)", command)
    assert match
    parsed = start.make_context("ray start", shlex.split(match.group(1)))  # raises what it does not know
    return dict(parsed.params)


HEAD, SERVER = ray_start(STARTED["head_command"]), ray_start(STARTED["server_command"])


def test_variables_are_settings(config: ServeConfig) -> None:
    ours = {name: "x" for name in STARTED["environment"] if name.startswith("CANOPY_")}
    assert from_environment(ServeConfig, ours)
    assert config.router.api_keys == ("one", "two")


def test_a_router_fits_on_the_head_only(config: ServeConfig) -> None:
    assert HEAD["num_gpus"] == 0
    assert SERVER["num_cpus"] < config.replicas.router_cpus <= HEAD["num_cpus"]


def test_a_verifier_fits_on_a_gpu_machine_only_and_leaves_no_room(config: ServeConfig) -> None:
    bundle = verifier_bundle(config)
    needed = bundle["CPU"] + FRONT_CPUS
    assert bundle["GPU"] == SERVER["num_gpus"] > HEAD["num_gpus"]
    assert needed <= SERVER["num_cpus"] < needed + drafter_bundle(config)["CPU"]
    assert config.speculation.placement == "colocated"


def test_servers_find_the_head() -> None:
    assert SERVER["address"] == f"head.canopy.internal:{HEAD['port']}"


def test_the_load_balancer_asks_where_the_service_is(config: ServeConfig) -> None:
    port = STARTED["serve_config"]["http_options"]["port"]
    text = (TERRAFORM / "stacks/medium/ray.tf").read_text()
    assert f"http_port         = {port}" in text
    assert f"request_timeout_s = {config.router.request_timeout_s:.0f}" in text
    assert STARTED["serve_config"]["http_options"]["host"] == "0.0.0.0"


def test_fixed_ports_do_not_meet() -> None:
    """Ray refuses a range of workers in which its own ports lie, and only when it starts."""
    for options in (HEAD, SERVER):
        workers = range(options["min_worker_port"], options["max_worker_port"] + 1)
        others = [
            10001,
            8265,
            52365,
            8000,
            9101,
            options["node_manager_port"],
            options["object_manager_port"],
        ]
        assert not [port for port in others if port in workers]
        assert len(set(others)) == len(others)
