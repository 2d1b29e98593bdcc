"""A verifier replica: the thin front of one engine, on the way between routers and rank 0."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle

from serving.config import ServeConfig
from serving.errors import GenerationError, UnavailableError
from serving.logs import configure_logging
from serving.replicas.engine_worker import EngineWorker
from serving.replicas.workers import compute_environment, start_worker, started, unwrapped, verifier_bundle
from serving.types import GenerationRequest, ModelCard, TokenDelta

logger = logging.getLogger(__name__)

# A step takes milliseconds; one that runs for this long hangs in a kernel or waits for a lost rank.
STEP_WATCHDOG_S = 60.0
# The worker answers beside its step loop, so this is only missed when the process is stuck.
ANSWER_TIMEOUT_S = 5.0


class _Stream:
    """Deltas of one request on their way out: what a slow consumer has not taken yet is merged into one."""

    def __init__(self) -> None:
        self._pending: TokenDelta | None = None
        self._error: Exception | None = None
        self._news = asyncio.Event()

    def put(self, delta: TokenDelta) -> None:
        self._pending = delta if self._pending is None else self._pending.merged(delta)
        self._news.set()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._news.set()

    async def take(self) -> TokenDelta:
        """Everything since the last call. Raises what `fail` was given, after the last delta was taken."""
        await self._news.wait()
        delta, self._pending = self._pending, None
        if delta is None:
            assert self._error is not None
            raise self._error
        if self._error is None:
            self._news.clear()
        return delta


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
        self._streams: dict[str, _Stream] = {}
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

    async def describe(self) -> ModelCard:
        return self._card

    async def generate(self, request: GenerationRequest) -> AsyncIterator[TokenDelta]:
        """Deltas of one request, the last with a finish reason. Closing the iterator aborts the request.

        Raises UnavailableError when the engine is already lost, GenerationError when it is lost on the way.
        """
        if self._lost is not None:
            raise UnavailableError("this verifier has lost its engine and is restarting")
        stream = self._streams[request.request_id] = _Stream()
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

        Anything else raised here restarts it after three checks in a row.
        """
        if self._lost is not None:
            raise self._lost
        age: float = await asyncio.wait_for(self._worker.step_age_s.remote(), ANSWER_TIMEOUT_S)
        if age > STEP_WATCHDOG_S:
            raise TimeoutError(f"the current step has run for {age:.0f} s")

    async def _fan_out(self) -> None:
        """One long poll per step for all requests, instead of one stream from rank 0 for each."""
        try:
            while True:
                for delta in await self._worker.take.remote():
                    if (stream := self._streams.get(delta.request_id)) is not None:
                        stream.put(delta)
        except Exception as error:
            logger.error("the engine process is lost: %s", str(error).partition("\n")[0])
            self._lost = error
            for stream in self._streams.values():
                stream.fail(GenerationError("the verifier lost its engine while it was generating"))
