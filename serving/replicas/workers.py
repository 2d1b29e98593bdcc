"""How a thin Serve replica starts the actors that do its work, in its own placement group."""

from __future__ import annotations

import logging
from copy import copy
from typing import Any, TypeVar, cast

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayTaskError
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from serving.config import ServeConfig
from serving.errors import CanopyError

logger = logging.getLogger(__name__)

# What the replica itself reserves: it only moves messages.
FRONT_CPUS = 0.05
# Of the workers' names: replicas of one cluster may belong to different Ray jobs.
NAMESPACE = "canopy"
# Of Ray nodes, where `replicas.pin_to_roles` is set.
ROLE_LABEL = "canopy-role"

Worker = TypeVar("Worker")


async def started(worker: ActorHandle[Any], *args: Any) -> Any:
    """What the worker's `start` returns. Raises what it raises."""
    try:
        return await unwrapped(worker.start.remote(*args))
    except CanopyError as error:
        logger.error("cannot start: %s", error)  # Serve shows it too, at the end of a long traceback
        raise


async def unwrapped(answer: Any) -> Any:
    """The answer of a worker, or the exception it raised, without the worker's traceback around it."""
    try:
        return await answer
    except RayTaskError as error:
        raise copy(error.cause) from None  # itself, it would be in a cycle with the error around it


def verifier_bundle(config: ServeConfig) -> dict[str, float]:
    """Of each rank."""
    return _bundle(config.replicas.verifier_cpus, config.replicas.verifier_gpus)


def drafter_bundle(config: ServeConfig) -> dict[str, float]:
    return _bundle(config.replicas.drafter_cpus, config.replicas.drafter_gpus)


def node_labels(config: ServeConfig, role: str) -> dict[str, str] | None:
    """What a Ray node must be labelled with to take replicas of this role: router, verifier or drafter."""
    return {ROLE_LABEL: role} if config.replicas.pin_to_roles else None


def _bundle(cpus: float, gpus: float) -> dict[str, float]:
    """What a worker reserves. Ray refuses a bundle that asks for nothing."""
    return {"CPU": max(cpus, 0.001)} | ({"GPU": gpus} if gpus else {})


def start_worker(
    worker: type[Worker],
    *args: Any,
    bundle: dict[str, float],
    environment: dict[str, str],
    name: str | None = None,
    place: int = 1,
    direct: bool = False,
) -> ActorHandle[Worker]:
    """Start an actor of class `worker` in bundle `place` of the calling replica's placement group.

    `bundle` is what it may use of that bundle, `name` what others find it by (see `named_worker`). `direct`:
    it takes part in Ray Direct Transport. Returns at once; the actor dies with this replica.
    """
    group = ray.util.get_current_placement_group()
    assert group is not None
    actor = ray.remote(worker).options(
        num_cpus=bundle["CPU"],
        num_gpus=bundle.get("GPU", 0),
        name=name,
        namespace=NAMESPACE,
        enable_tensor_transport=direct,
        # Ray would keep a record of every call, and there are a few in each step.
        enable_task_events=False,
        scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=place),
        runtime_env={"env_vars": environment},
    )
    return cast("ActorHandle[Worker]", actor.remote(*args))


def named_worker(name: str) -> ActorHandle[Any]:
    """A worker of any replica of this cluster. Blocks. Raises ValueError when there is none of this name.

    Names travel between replicas instead of handles: a handle inside an answer makes its receiver a borrower
    of the sender's references, and Ray 2.60 can abort the receiver's process when the sender dies meanwhile
    (the check `owned_by_us_` in its reference counter).
    """
    return ray.get_actor(name, NAMESPACE)


def shared_environment(config: ServeConfig) -> dict[str, str]:
    """Variables that every process of the service gets.

    glibc would give a process's forty threads, most of them Ray's, up to eight heaps for each core. What one
    heap has freed another cannot use, so memory would creep up until each has had its largest moment.
    """
    environment = {"MALLOC_ARENA_MAX": "2"}
    if config.metrics_dir is not None:
        environment["PROMETHEUS_MULTIPROC_DIR"] = str(config.metrics_dir)
    return environment


def drafter_environment(config: ServeConfig) -> dict[str, str]:
    """Prompt lookup computes nothing that threads could share; a head is a model."""
    if config.speculation.method == "prompt_lookup":
        return shared_environment(config)
    return compute_environment(config)


def compute_environment(config: ServeConfig) -> dict[str, str]:
    """Variables of a process that runs a model.

    OpenMP threads that spin while they wait take a core from the processes they wait for: on two cores that
    halves both. Passive waiting costs microseconds.
    """
    # Ray's default would be one thread, whatever the machine has.
    threads = {"OMP_NUM_THREADS": str(config.engine.threads), "OMP_WAIT_POLICY": "passive"}
    return shared_environment(config) | threads
