"""A drafter replica: starts a worker and leases it out by name; the data path goes past it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping

import ray
from ray import serve

from serving.config import ServeConfig
from serving.logs import configure_logging
from serving.replicas.drafter_worker import DrafterWorker
from serving.replicas.lease_book import Lease, LeaseBook
from serving.replicas.workers import drafter_bundle, drafter_environment, start_worker, started

ANSWER_TIMEOUT_S = 5.0


@serve.deployment
class DrafterPool:
    """Serve places, scales and health-checks drafters; verifiers then call the workers directly."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self, config: ServeConfig
    ) -> None:
        configure_logging(config.log_level)
        self._name = f"drafter-{uuid.uuid4().hex}"
        self._node = ray.get_runtime_context().get_node_id()  # the worker's too: their group is STRICT_PACK
        self._leases = LeaseBook()
        self._worker = start_worker(
            DrafterWorker,
            config,
            bundle=drafter_bundle(config),
            environment=drafter_environment(config),
            name=self._name,
            direct=config.speculation.direct,
        )
        await started(self._worker)

    async def lease(self, holder: str, sequences: Mapping[str, int]) -> Lease:
        """This replica's worker, for a while.

        holder: any name of the verifier's own. sequences: for how many it drafts with each worker, by name.
        """
        others = self._leases.renew(holder, sequences.get(self._name, 0))
        return Lease(self._name, self._node, others)

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """What their number follows (replicas/scaling.py); Serve asks where it autoscales."""
        load: dict[str, float] = await self._worker.load.remote()
        return load

    async def check_health(self) -> None:
        """Raises ActorDiedError when the worker is gone: Serve then restarts the replica at once."""
        await asyncio.wait_for(self._worker.ping.remote(), ANSWER_TIMEOUT_S)
