"""The chart fits the service: one replica per pod, ports and labels that both sides know, time to drain."""

from __future__ import annotations

import pytest
from charts import EXAMPLES, Document, groups_of, render, serve_config_of, templates_of, the

from serving.config import ServeConfig
from serving.replicas.workers import FRONT_CPUS, ROLE_LABEL, drafter_bundle, verifier_bundle

pytestmark = pytest.mark.parametrize("example", EXAMPLES)

SPOT_NOTICE_S = 120


def settings_of(example: str) -> ServeConfig:
    """Raises ConfigError where the chart makes settings that are none."""
    return ServeConfig.load(serve_config_of(render(example))["applications"][0]["args"], environ={})


def role_of(group: Document) -> str:
    return group["labels"][ROLE_LABEL]


def container_of(template: Document) -> Document:
    return template["spec"]["containers"][0]


def ports_of(template: Document) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container_of(template)["ports"]}


def test_every_role_has_nodes_and_every_node_a_role(example: str) -> None:
    config = settings_of(example)
    pool = config.speculation.placement == "pool" and config.speculation.method != "off"
    roles = {"router", "verifier"} | ({"drafter"} if pool else set())
    assert config.replicas.pin_to_roles
    assert {role_of(group) for group in groups_of(render(example))} == roles
    for group in groups_of(render(example)):
        assert group["template"]["metadata"]["labels"]["canopy-role"] == role_of(group)


def test_one_replica_fits_into_a_pod_and_no_second(example: str) -> None:
    """Its metrics port, its GPUs and its time to drain are then its own."""
    config = settings_of(example)
    ranks = config.engine.tensor_parallel_size
    verifier, drafter = verifier_bundle(config), drafter_bundle(config)
    cpus = {
        "router": config.replicas.router_cpus,
        "verifier": FRONT_CPUS + ranks * verifier["CPU"],
        "drafter": FRONT_CPUS + drafter["CPU"],
    }
    gpus = {"router": 0, "verifier": ranks * verifier.get("GPU", 0), "drafter": drafter.get("GPU", 0)}
    for group in groups_of(render(example)):
        start = group["rayStartParams"]
        assert float(start["num-cpus"]) / 2 < cpus[role_of(group)] <= float(start["num-cpus"])
        assert float(start["num-gpus"]) == gpus[role_of(group)]
        limits = container_of(group["template"])["resources"]["limits"]
        assert limits.get("nvidia.com/gpu", 0) == gpus[role_of(group)]


def test_pods_expose_what_the_service_listens_on(example: str) -> None:
    replicas, serve = settings_of(example).replicas, serve_config_of(render(example))
    metrics = {
        "router": replicas.router_metrics_port,
        "verifier": replicas.verifier_metrics_port,
        "drafter": replicas.drafter_metrics_port,
    }
    assert len(set(metrics.values())) == 3
    for group in groups_of(render(example)):
        ports = ports_of(group["template"])
        assert ports["app-metrics"] == metrics[role_of(group)]
        assert ports["serve"] == serve["http_options"]["port"]
    assert serve["http_options"]["host"] == "0.0.0.0"
    assert ports_of(templates_of(render(example))[0])["serve"] == serve["http_options"]["port"]


def test_there_is_room_for_every_replica(example: str) -> None:
    deployments = {d["name"]: d for d in serve_config_of(render(example))["applications"][0]["deployments"]}
    roles = {"router": "Router", "verifier": "Verifier", "drafter": "DrafterPool"}
    for role in {role_of(group) for group in groups_of(render(example))}:
        scaling = deployments.pop(roles[role])["autoscaling_config"]
        groups = [group for group in groups_of(render(example)) if role_of(group) == role]
        assert sum(group["maxReplicas"] for group in groups) >= scaling["max_replicas"]
        assert sum(group["minReplicas"] for group in groups) <= scaling["min_replicas"]
    assert deployments == {}


def test_a_pod_that_must_go_has_time_to_move_its_replica(example: str) -> None:
    """Leave the Service, let Serve move the replica, end Ray: on spot within the notice."""
    deployments = serve_config_of(render(example))["applications"][0]["deployments"]
    longest = max(deployment.get("graceful_shutdown_timeout_s", 0) for deployment in deployments)
    for group in groups_of(render(example)):
        pod, container = group["template"]["spec"], container_of(group["template"])
        drain = int(
            {e["name"]: e["value"] for e in container["env"]}["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"]
        )
        before = container["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert longest <= drain
        assert before + drain + 10 <= pod["terminationGracePeriodSeconds"]
        if (pod.get("nodeSelector") or {}).get("canopy-pool") == "gpu-flexible":
            assert pod["terminationGracePeriodSeconds"] <= SPOT_NOTICE_S - 5


def test_only_routers_see_the_keys(example: str) -> None:
    file = settings_of(example).router.api_keys_file
    for group in groups_of(render(example)):
        mounts = {m["mountPath"] for m in container_of(group["template"])["volumeMounts"]}
        expected = file is not None and role_of(group) == "router"
        assert any(file and str(file).startswith(f"{mount}/") for mount in mounts) == expected


def test_ray_is_as_it_must_be(example: str) -> None:
    service = the(render(example), "RayService")["spec"]
    cluster = service["rayClusterConfig"]
    assert service["excludeHeadPodFromServeSvc"]
    assert cluster["authOptions"]["mode"] == "token"
    assert cluster["enableInTreeAutoscaling"]
    assert cluster["autoscalerOptions"]["version"] == "v2"
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
