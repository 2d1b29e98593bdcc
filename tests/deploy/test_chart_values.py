"""Values that make no sense are refused with a sentence that names them; others do what they say."""

from __future__ import annotations

import json

import pytest
import yaml
from charts import (
    CHART,
    NODES,
    cluster_of,
    groups_of,
    of_kind,
    render,
    serve_config_of,
    template,
    the,
)

from serving.config import ServeConfig

KEYS = "apiKeys.existingSecret="


@pytest.mark.parametrize(
    ("example", "values", "message"),
    [
        ("one-gpu", [KEYS], "name apiKeys.existingSecret, or say apiKeys.allowAnonymous: true"),
        (
            "one-gpu",
            ["settings.replicas.pin_to_roles=false"],
            "settings.replicas.pin_to_roles is set by the chart",
        ),
        (
            "one-gpu",
            ["settings.router.api_keys={a}"],
            "settings.router.api_keys is set by the chart: use apiKeys",
        ),
        ("one-gpu", ["settings.metrics_dir=/tmp"], "settings.metrics_dir is set by the service"),
        ("one-gpu", ["settings.replicas.verifiers=3"], "set by the chart: use autoscaling.verifiers"),
        ("one-gpu", ["settings.autoscaling.max_verifiers=3"], "set by the chart: use autoscaling"),
        ("one-gpu", ["autoscaling.triggers.kv=0.5"], "additional properties 'kv' not allowed"),
        ("one-gpu", ["autoscaling.routers.min=3"], "autoscaling.routers.max must not be less than .min"),
        (
            "one-gpu",
            [
                "autoscaling.triggers.hours[0].start=07:00",
                "autoscaling.triggers.hours[0].end=20:00",
                "autoscaling.triggers.hours[0].verifiers=2",
            ],
            "hours ask for more verifiers than autoscaling.verifiers.max",
        ),
        ("one-gpu", ["groups.router.gpu=1"], "additional properties 'gpu' not allowed"),
        ("one-gpu", ["groups.verifier-spot.drainSeconds=100"], "maximum: got 100, want 85"),
        ("one-gpu", ["groups.router.drainSeconds=30"], "groups.router.drainSeconds must be at least"),
        ("one-gpu", ["image.repository="], "minLength"),
        (
            "one-gpu",
            [KEYS, "apiKeys.allowAnonymous=true", "ingress.scheme=internet-facing"],
            "an internet-facing ingress needs API keys",
        ),
        (
            "one-gpu",
            ["monitoring.alarms.disabled={CanopyNothing}"],
            "value must be one of 'CanopyLatencyHigh'",
        ),
        (
            "70b-tp4",
            ["groups.verifier-spot.gpus=2"],
            "groups of role verifier must have the same number of gpus",
        ),
        (
            "70b-tp4",
            ["settings.engine.tensor_parallel_size=2"],
            "has 4 gpus, but settings.engine.tensor_parallel_",
        ),
        ("70b-tp4", ["upgrade.gatewayClassName="], "upgrade.gatewayClassName names the class"),
        (
            "70b-tp4",
            ["ingress.gatewayService.name="],
            "ingress.gatewayService.name names the gateway's Service",
        ),
        (
            "70b-tp4",
            ["networkPolicy.redisCidrs=null"],
            "networkPolicy.redisCidrs says where redis.address is",
        ),
        ("70b-tp4", ["drainer.queueUrl="], "drainer.queueUrl names the queue of interruptions"),
        ("70b-tp4", ["drainer.queueUrl=canopy-drain"], "does not match pattern"),
    ],
)
def test_refused(example: str, values: list[str], message: str) -> None:
    done = template(example, *values)
    assert done.returncode != 0
    assert message in done.stderr


def test_a_second_release_with_a_newer_chart_leaves_the_ray_cluster_alone() -> None:
    """KubeRay replaces the cluster when its spec changes: no label of it may hold the chart's version."""
    for group in groups_of(render("one-gpu")):
        labels = group["template"]["metadata"]["labels"]
        assert not {"helm.sh/chart", "app.kubernetes.io/version"} & set(labels)


def test_other_settings_take_another_ray_cluster_and_other_numbers_of_replicas_do_not() -> None:
    """KubeRay goes by the cluster's spec, and applies a Serve config that changes alone where it runs."""
    running = cluster_of(render("one-gpu"))
    assert cluster_of(render("one-gpu", "settings.model=s3://models/other")) != running
    scaled = render("one-gpu", "autoscaling.routers.max=4", "replicaShutdownSeconds=30")
    assert cluster_of(scaled) == running
    assert serve_config_of(scaled) != serve_config_of(render("one-gpu"))


def test_verifiers_that_may_all_go_are_known_to_routers() -> None:
    """A router without a verifier is then ready, and its first request brings one."""
    (application,) = serve_config_of(render("one-gpu", "autoscaling.verifiers.min=0"))["applications"]
    assert ServeConfig.load(application["args"], environ={}).replicas.verifiers == 0
    (verifier,) = (d for d in application["deployments"] if d["name"] == "Verifier")
    assert verifier["autoscaling_config"]["min_replicas"] == 0


def test_a_budget_only_where_another_replica_is_left() -> None:
    budgets = {b["metadata"]["name"]: b for b in of_kind(render("70b-tp4"), "PodDisruptionBudget")}
    assert {name: b["spec"]["minAvailable"] for name, b in budgets.items()} == {
        "canopy-router": 2,
        "canopy-verifier": 1,
    }
    assert of_kind(render("cpu-kind"), "PodDisruptionBudget") == []


def test_verifiers_are_not_moved_to_cheaper_machines() -> None:
    kept = {
        group["groupName"]
        for group in groups_of(render("70b-tp4"))
        if group["template"]["metadata"].get("annotations") == {"karpenter.sh/do-not-disrupt": "true"}
    }
    assert kept == {"verifier-on-demand", "verifier-spot"}


def test_spot_grows_first() -> None:
    priority = {group["groupName"]: group["priority"] for group in groups_of(render("70b-tp4"))}
    assert priority["verifier-spot"] > priority["verifier-on-demand"]


@pytest.mark.parametrize(("example", "path"), [("one-gpu", "/-/healthz"), ("70b-tp4", "/health")])
def test_the_load_balancer_asks_every_ten_seconds_and_gives_up_after_three(example: str, path: str) -> None:
    annotations = the(render(example), "Ingress")["metadata"]["annotations"]
    prefix = "alb.ingress.kubernetes.io"
    assert annotations[f"{prefix}/healthcheck-interval-seconds"] == "10"
    assert annotations[f"{prefix}/unhealthy-threshold-count"] == "3"
    assert annotations[f"{prefix}/healthcheck-path"] == path
    assert annotations[f"{prefix}/target-type"] == "ip"


def test_during_an_incremental_upgrade_traffic_goes_through_the_gateway() -> None:
    service = the(render("70b-tp4"), "RayService")["spec"]
    assert service["upgradeStrategy"]["type"] == "NewClusterWithIncrementalUpgrade"
    ingress = the(render("70b-tp4"), "Ingress")
    backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": "gateway", "port": {"name": "use-annotation"}}
    assert (
        "canopy-gateway-istio"
        in ingress["metadata"]["annotations"]["alb.ingress.kubernetes.io/actions.gateway"]
    )


def test_redis_keeps_the_heads_state_and_its_password_comes_from_a_secret() -> None:
    options = the(render("70b-tp4"), "RayService")["spec"]["rayClusterConfig"]["gcsFaultToleranceOptions"]
    assert options["redisAddress"].endswith(":6379")
    assert options["redisPassword"] == {
        "valueFrom": {"secretKeyRef": {"name": "canopy-redis", "key": "password"}}
    }


def test_an_alarm_can_be_turned_off_and_its_threshold_set() -> None:
    values = (
        "monitoring.alarms.disabled={CanopyGpuFault}",
        "monitoring.alarms.thresholds.CanopyLatencyHigh=30",
    )
    (group,) = the(render("one-gpu", *values), "PrometheusRule")["spec"]["groups"]
    rules = {rule["alert"]: rule for rule in group["rules"]}
    assert "CanopyGpuFault" not in rules
    assert rules["CanopyLatencyHigh"]["expr"].endswith("> 30")


def test_pools_of_nodes_fit_the_pods() -> None:
    """Each label that pods ask for is some pool's, spot comes before on demand, volumes are encrypted."""
    nodes = render("8b", chart=NODES)
    pools = of_kind(nodes, "NodePool")
    labels = {pool["spec"]["template"]["metadata"]["labels"]["canopy-pool"] for pool in pools}
    wanted = {g["template"]["spec"]["nodeSelector"]["canopy-pool"] for g in groups_of(render("70b-tp4"))}
    assert wanted <= labels
    weights = {pool["metadata"]["name"]: pool["spec"]["weight"] for pool in pools}
    assert weights["canopy-gpu-spot"] > weights["canopy-gpu-fallback"]
    for node_class in of_kind(nodes, "EC2NodeClass"):
        assert node_class["spec"]["metadataOptions"]["httpTokens"] == "required"
        assert all(volume["ebs"]["encrypted"] for volume in node_class["spec"]["blockDeviceMappings"])


@pytest.mark.parametrize(
    "values",
    [["cluster.nodeRole="], ["cluster.instanceProfile=canopy-node"]],
    ids=["neither", "both"],
)
def test_nodes_have_a_role_or_an_instance_profile(values: list[str]) -> None:
    done = template("8b", *values, chart=NODES)
    assert done.returncode != 0
    assert "name one of cluster.nodeRole and cluster.instanceProfile, and not both" in done.stderr


def test_only_who_wants_the_drainer_has_it() -> None:
    plain = render("one-gpu")
    assert not [d for kind in ("Deployment", "ClusterRole", "Role") for d in of_kind(plain, kind)]
    assert "canopy-drainer" not in {a["metadata"]["name"] for a in of_kind(plain, "ServiceAccount")}


@pytest.mark.parametrize("pool", ["canopy-gpu-stable", "canopy-gpu-spot", "canopy-gpu-fallback"])
def test_a_node_with_gpus_takes_only_pods_that_want_them_and_ends_some_day(pool: str) -> None:
    spec = the(render("8b", chart=NODES), "NodePool", pool)["spec"]
    (taint,) = spec["template"]["spec"]["taints"]
    tolerations = [g["template"]["spec"].get("tolerations") for g in groups_of(render("70b-tp4"))]
    assert [{"key": taint["key"], "operator": "Exists", "effect": taint["effect"]}] in tolerations
    assert spec["disruption"]["consolidationPolicy"] == "WhenEmpty"
    assert spec["template"]["spec"]["terminationGracePeriod"] == "30m"
    assert spec["template"]["spec"]["expireAfter"] == "336h"


def test_the_schema_knows_every_value() -> None:
    """A value without a place in the schema is refused; one that only the schema has does nothing."""
    for chart in (CHART, NODES):
        schema = json.loads((chart / "values.schema.json").read_text())
        values = yaml.safe_load((chart / "values.yaml").read_text())
        assert set(schema["properties"]) - {"global"} == set(values)
