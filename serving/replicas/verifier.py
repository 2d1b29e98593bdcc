"""A verifier replica: the thin front of one engine, on the way between routers and rank 0."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle

from serving.config import ServeConfig
from serving.errors import UnavailableError, VerifierLostError
from serving.logs import configure_logging
from serving.replicas.stream import DeltaStream
from serving.replicas.verifier_workers import VerifierWorkers
from serving.replicas.workers import unwrapped
from serving.types import GenerationRequest, ModelCard, TokenDelta

logger = logging.getLogger(__name__)


@serve.deployment
class Verifier:
    """Queues requests in and deltas out; the model lives in the worker's process.

    Keeping the model out of this process keeps streams and health checks alive while kernels are dispatched.
    """

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self, config: ServeConfig, drafters: DeploymentHandle[Any] | None
    ) -> None:
        """Returns when the model is loaded. Raises ModelLoadError or ConfigError with their one sentence."""
        configure_logging(config.log_level)
        self._config = config
        self._streams: dict[str, DeltaStream] = {}
        self._lost: Exception | None = None
        self._workers = VerifierWorkers(config, drafters)
        self._worker = self._workers.first
        self._card: ModelCard = await self._workers.start()
        jobs = self._fan_out(), self._workers.watch()
        self._tasks = [asyncio.create_task(self._until_lost(job)) for job in jobs]

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Serve's `user_config`, at the start and whenever it changes: how m is chosen (UserConfig).

        Requests under way go on. Raises ConfigError naming what is wrong.
        """
        await unwrapped(self._worker.choose_m.remote(self._config.budget(user_config)))

    async def describe(self) -> ModelCard:
        return self._card

    async def ping(self) -> None:
        """Answers when the engine can take requests. Raises UnavailableError when it is lost."""
        self._check_engine()

    async def generate(self, request: GenerationRequest) -> AsyncIterator[TokenDelta]:
        """Deltas of one request, the last with a finish reason. Closing the iterator aborts the request.

        Raises UnavailableError when the engine is already lost or the request is for another model,
        VerifierLostError when the engine is lost on the way.
        """
        self._check_engine()
        if request.fingerprint not in (None, self._card.fingerprint):
            raise UnavailableError("this verifier has another model than the one that began the request")
        stream = self._streams[request.request_id] = DeltaStream()
        finished = False
        try:
            self._worker.add.remote(request)
            while not finished:
                delta = await stream.take()
                finished = delta.finish_reason is not None
                yield replace(delta, fingerprint=self._card.fingerprint)
        finally:
            del self._streams[request.request_id]
            if not finished:
                self._worker.abort.remote(request.request_id)

    async def stats(self) -> dict[str, Any]:
        """The engine's; `rank_pids`: process ids of the ranks but the first."""
        stats: dict[str, Any] = await unwrapped(self._worker.stats.remote())
        return stats | {"rank_pids": self._workers.pids}

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """What their number follows (replicas/scaling.py); Serve asks where it autoscales."""
        load: dict[str, float] = await unwrapped(self._worker.load.remote())
        return load

    async def check_integrity(self) -> None:
        """Check the engine's bookkeeping. Raises AssertionError."""
        await unwrapped(self._worker.check_integrity.remote())

    async def check_health(self) -> None:
        """Raises ActorDiedError when a worker is gone: Serve then restarts the replica at once.

        If one hangs, all are killed. Serve would let this replica wait for its streams, which never end.
        """
        if self._lost is not None:
            raise self._lost
        if why := await self._workers.stuck():
            logger.error("%s: killing the engine", why)
            self._workers.kill()

    def _check_engine(self) -> None:
        if self._lost is not None:
            raise UnavailableError("this verifier has lost its engine and is restarting")

    async def _fan_out(self) -> None:
        """One long poll per step for all requests, instead of one stream from rank 0 for each."""
        while True:
            for delta in await self._worker.take.remote():
                if (stream := self._streams.get(delta.request_id)) is not None:
                    stream.put(delta)

    async def _until_lost(self, job: Coroutine[Any, Any, None]) -> None:
        """The first worker that is gone takes the others with it, and ends all streams."""
        try:
            await job
        except Exception as error:
            if self._lost is not None:
                return
            logger.error("the engine is lost: %s", error)  # Ray names the exit code and the signal
            self._lost = error
            for stream in self._streams.values():
                stream.fail(VerifierLostError("the verifier lost its engine while it was generating"))
            self._workers.kill()
