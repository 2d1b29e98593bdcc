"""A verifier replica: the thin front of one engine, on the way between routers and rank 0."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import ray
from ray import serve
from ray.serve.handle import DeploymentHandle

from serving.config import ServeConfig
from serving.errors import GenerationError, UnavailableError
from serving.logs import configure_logging
from serving.replicas.engine_worker import EngineWorker
from serving.replicas.stream import DeltaStream
from serving.replicas.workers import compute_environment, start_worker, started, unwrapped, verifier_bundle
from serving.types import GenerationRequest, ModelCard, TokenDelta

logger = logging.getLogger(__name__)

# A step takes milliseconds; one that runs for this long hangs in a kernel or waits for a lost rank.
STEP_WATCHDOG_S = 60.0
# The worker answers beside its step loop: only a process that is stuck as a whole takes this long.
ANSWER_TIMEOUT_S = 20.0


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
        self._worker = start_worker(
            EngineWorker,
            config,
            drafters,
            bundle=verifier_bundle(config),
            environment=compute_environment(config),
        )
        self._card: ModelCard = await started(self._worker)
        self._pump = asyncio.create_task(self._fan_out())

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

        Raises UnavailableError when the engine is already lost, GenerationError when it is lost on the way.
        """
        self._check_engine()
        stream = self._streams[request.request_id] = DeltaStream()
        finished = False
        try:
            self._worker.add.remote(request)
            while not finished:
                delta = await stream.take()
                finished = delta.finish_reason is not None
                yield delta
        finally:
            del self._streams[request.request_id]
            if not finished:
                self._worker.abort.remote(request.request_id)

    async def stats(self) -> dict[str, Any]:
        stats: dict[str, Any] = await unwrapped(self._worker.stats.remote())
        return stats

    async def check_integrity(self) -> None:
        """Check the engine's bookkeeping. Raises AssertionError."""
        await unwrapped(self._worker.check_integrity.remote())

    async def check_health(self) -> None:
        """Raises ActorDiedError when the worker is gone: Serve then restarts the replica at once.

        A worker that hangs is killed. Serve would let this replica wait for its streams, which never end.
        """
        if self._lost is not None:
            raise self._lost
        if await self._hangs():
            ray.kill(self._worker)

    def _check_engine(self) -> None:
        if self._lost is not None:
            raise UnavailableError("this verifier has lost its engine and is restarting")

    async def _hangs(self) -> bool:
        try:
            age: float = await asyncio.wait_for(self._worker.step_age_s.remote(), ANSWER_TIMEOUT_S)
        except TimeoutError:
            logger.error("the engine process has not answered for %.0f s: killing it", ANSWER_TIMEOUT_S)
            return True
        if age > STEP_WATCHDOG_S:
            logger.error("a step has run for %.0f s: killing the engine process", age)
            return True
        return False

    async def _fan_out(self) -> None:
        """One long poll per step for all requests, instead of one stream from rank 0 for each."""
        try:
            while True:
                for delta in await self._worker.take.remote():
                    if (stream := self._streams.get(delta.request_id)) is not None:
                        stream.put(delta)
        except Exception as error:
            logger.error("the engine process is lost: %s", error)  # Ray names the exit code and the signal
            self._lost = error
            for stream in self._streams.values():
                stream.fail(GenerationError("the verifier lost its engine while it was generating"))
