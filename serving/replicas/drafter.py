"""A drafter replica: starts a worker and hands out its name; the data path goes past it."""

from __future__ import annotations

import asyncio
import uuid

from ray import serve

from serving.config import ServeConfig
from serving.logs import configure_logging
from serving.replicas.drafter_worker import DrafterWorker
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
        self._worker = start_worker(
            DrafterWorker,
            config,
            bundle=drafter_bundle(config),
            environment=drafter_environment(config),
            name=self._name,
        )
        await started(self._worker)

    async def lease(self) -> str:
        """The name of this replica's worker."""
        return self._name

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """What their number follows (replicas/scaling.py); Serve asks where it autoscales."""
        load: dict[str, float] = await self._worker.load.remote()
        return load

    async def check_health(self) -> None:
        """Raises ActorDiedError when the worker is gone: Serve then restarts the replica at once."""
        await asyncio.wait_for(self._worker.ping.remote(), ANSWER_TIMEOUT_S)
