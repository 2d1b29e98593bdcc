"""The application: router -> verifiers -> drafters.

`serve run serving.app:graph` starts it with settings from the environment, `serve run serving.app:build
model=/models/mine engine.max_num_seqs=16` or a Serve config file (`args:`) with settings of their own.
Importing this module starts nothing and loads no model.
"""

from __future__ import annotations

import tempfile
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from ray.serve import Application, Deployment
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, BackpressureConfig, RequestRouterConfig
from ray.serve.schema import LoggingConfig

from serving.config import ServeConfig
from serving.errors import OverloadedError
from serving.replicas.drafter import DrafterPool
from serving.replicas.scaling import DrafterScaling, VerifierScaling
from serving.replicas.verifier import Verifier
from serving.replicas.workers import (
    FRONT_CPUS,
    drafter_bundle,
    node_labels,
    shared_environment,
    verifier_bundle,
)
from serving.router.deployment import Router
from serving.router.routing import RoutingSettings, VerifierRouter

# A dead worker is noticed by the next check, and until then its replica answers 503; a check is cheap.
HEALTH_CHECK_PERIOD_S = 1.0
# Longer than what the checks themselves wait for.
HEALTH_CHECK_TIMEOUT_S = 30.0
# A drafter holds nothing that cannot be made again.
DRAFTER_SHUTDOWN_S = 2.0
# A process may be killed while it starts; what is wrong with a model or a setting is still wrong at the third
# try. A replica that has run before is restarted without limit.
CONSTRUCTOR_TRIES = 3
# How often replicas that are autoscaled tell their load, and over how long it is averaged.
LOAD_PERIOD_S = 2.0
LOAD_AVERAGE_S = 10.0
# How old what routers know of a verifier's cache may be; they know its queue by themselves.
ROUTING_STATS_PERIOD_S = 2.0
# For a verifier to learn that it is to go, and for its routers to take back what it hands them.
HAND_BACK_S = 10.0


def build(args: dict[str, Any]) -> Application:
    """The application for these settings (see ServeConfig.load). Raises ConfigError."""
    config = ServeConfig.load(args)
    if config.metrics_dir is None:
        folder = Path(tempfile.gettempdir()) / f"canopy-metrics-{uuid.uuid4().hex}"
        config = config.model_copy(update={"metrics_dir": folder})
    return _router(config, _verifier(config, drafters(config)))


def _router(config: ServeConfig, verifier: Application) -> Application:
    return _deployment(
        Router,
        num_replicas=config.replicas.routers,
        ray_actor_options=_actor(config, config.replicas.router_cpus) | _on_nodes(config, "router"),
        max_ongoing_requests=config.router.max_ongoing_requests,
        max_queued_requests=config.router.max_ongoing_requests,
        backpressure_config=BackpressureConfig(status_code=429, retry_after_s=OverloadedError.retry_after_s),
        **_lifecycle(config, config.router.request_timeout_s),
    ).bind(config, verifier)


def _verifier(config: ServeConfig, drafters: Application | None) -> Application:
    return _deployment(
        Verifier,
        **_verifiers_by_load(config),
        ray_actor_options=_actor(config, FRONT_CPUS),
        placement_group_bundles=[
            {"CPU": FRONT_CPUS},
            *[verifier_bundle(config)] * config.engine.tensor_parallel_size,
        ],
        placement_group_strategy=config.replicas.verifier_placement_strategy,
        max_ongoing_requests=config.replicas.max_ongoing_requests,
        request_router_config=_routing(config),
        max_constructor_retry_count=CONSTRUCTOR_TRIES,
        **_group_on_nodes(config, "verifier"),
        **_lifecycle(config, config.replicas.verifier_drain_s + HAND_BACK_S),
    ).bind(config, drafters)


def _routing(config: ServeConfig) -> RequestRouterConfig:
    """How routers choose a verifier. Serve wants the settings as JSON."""
    settings = RoutingSettings(
        config.model_name, prefix_tokens=config.router.affinity_tokens, load_bound=config.router.load_bound
    )
    options: dict[str, Any] = {
        "request_router_class": VerifierRouter,
        "request_router_kwargs": asdict(settings),
        "request_routing_stats_period_s": ROUTING_STATS_PERIOD_S,
    }
    return RequestRouterConfig(**options)


def drafters(config: ServeConfig) -> Application | None:
    """The pool, unless drafts are made inside the verifiers or not at all."""
    if config.speculation.method == "off" or config.speculation.placement != "pool":
        return None
    return _deployment(
        DrafterPool,
        **_drafters_by_load(config),
        ray_actor_options=_actor(config, FRONT_CPUS),
        placement_group_bundles=[{"CPU": FRONT_CPUS}, drafter_bundle(config)],
        placement_group_strategy="STRICT_PACK",
        **_group_on_nodes(config, "drafter"),
        **_lifecycle(config, DRAFTER_SHUTDOWN_S),
    ).bind(config)


def _verifiers_by_load(config: ServeConfig) -> dict[str, Any]:
    least, most = config.replicas.verifiers, config.autoscaling.max_verifiers
    if most is None:
        return {"num_replicas": least}
    scaling = _scaling(config, VerifierScaling, min_replicas=least, max_replicas=most)
    scaling.target_ongoing_requests = config.sequences_per_verifier
    return {"autoscaling_config": scaling}


def _drafters_by_load(config: ServeConfig) -> dict[str, Any]:
    least, most = config.replicas.drafters, config.autoscaling.max_drafters
    if most is None:
        return {"num_replicas": least}
    return {"autoscaling_config": _scaling(config, DrafterScaling, min_replicas=least, max_replicas=most)}


def _scaling(config: ServeConfig, policy: type, **bounds: int) -> AutoscalingConfig:
    settings = config.autoscaling
    return AutoscalingConfig(
        **bounds,
        metrics_interval_s=LOAD_PERIOD_S,
        look_back_period_s=LOAD_AVERAGE_S,
        upscale_delay_s=settings.up_after_s,
        downscale_delay_s=settings.down_after_s,
        downscaling_factor=0.5,
        policy=AutoscalingPolicy(  # type: ignore[no-untyped-call]
            policy_function=policy, policy_kwargs=settings.triggers
        ),
    )


def _deployment(decorated: object, **options: Any) -> Deployment:
    """`@serve.deployment` is typed as if it returned the class itself."""
    return cast(Deployment, decorated).options(**options)


def _actor(config: ServeConfig, cpus: float) -> dict[str, Any]:
    return {"num_cpus": cpus, "runtime_env": {"env_vars": shared_environment(config)}}


def _on_nodes(config: ServeConfig, role: str) -> dict[str, Any]:
    labels = node_labels(config, role)
    return {"label_selector": labels} if labels else {}


def _group_on_nodes(config: ServeConfig, role: str) -> dict[str, Any]:
    """The same for every bundle of a placement group."""
    labels = node_labels(config, role)
    return {"placement_group_bundle_label_selector": [labels]} if labels else {}


def _lifecycle(config: ServeConfig, shutdown_s: float) -> dict[str, Any]:
    """A replica that is told to go has `shutdown_s` to be rid of its requests."""
    return {
        "max_surge_percent": config.replicas.max_surge_percent,
        "graceful_shutdown_timeout_s": shutdown_s,
        "graceful_shutdown_wait_loop_s": 0.2,
        "health_check_period_s": HEALTH_CHECK_PERIOD_S,
        "health_check_timeout_s": HEALTH_CHECK_TIMEOUT_S,
        # The router logs requests under their ids; Serve's own line for each would say less.
        "logging_config": LoggingConfig(enable_access_log=False),
    }


graph = build({})
