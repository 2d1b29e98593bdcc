"""Metrics that dashboards and alarms may name. Run as a script it prints them, one a line."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric

from serving.metrics import REGISTRY

_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}

# Ray's, Ray Serve's, and what we tell Ray: test_cluster.py starts the service and finds each of them.
RAY = (
    "ray_canopy_scaling_wanted",
    "ray_node_cpu_utilization",
    "ray_node_mem_used",
    "ray_object_store_memory",
    "ray_serve_autoscaling_target_replicas",
    "ray_serve_deployment_replica_healthy",
    "ray_serve_health_check_failures_total",
)
# Of what the chart's README asks to be there beside it: Karpenter, kube-state-metrics, the DCGM exporter.
NEIGHBOURS = (
    "karpenter_interruption_received_messages_total",
    "kube_pod_status_phase",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_XID_ERRORS",
)


def _series(metric: Metric) -> Iterator[str]:
    for suffix in _SUFFIXES[metric.type]:
        yield metric.name + suffix


def service_metrics() -> set[str]:
    """Every series that serving/metrics.py defines."""
    return {name for metric in REGISTRY.collect() if metric.type in _SUFFIXES for name in _series(metric)}


if __name__ == "__main__":
    print(*sorted({*service_metrics(), *RAY, *NEIGHBOURS}), sep="\n")
