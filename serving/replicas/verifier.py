"""A verifier replica: the thin front of one engine, on the way between routers and rank 0."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from typing import Any
from uuid import uuid4

from ray import serve
from ray.serve.handle import DeploymentHandle

from serving.config import ServeConfig
from serving.errors import MigratedError, ModelReplacedError, TokenizerReplacedError, VerifierLostError
from serving.logs import configure_logging
from serving.replicas.membership import Membership
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
        self._hand_back: asyncio.TimerHandle | None = None  # set while this replica is to go
        self._workers = VerifierWorkers(config, drafters)
        self._worker = self._workers.first
        self._card: ModelCard = await self._workers.start()
        self._tokenizer = self._card.tokenizer
        jobs = self._fan_out(), self._workers.watch()
        self._tasks = [asyncio.create_task(self._until_lost(job)) for job in jobs]
        self._membership = Membership(self._in_service)

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Serve's `user_config`, at the start and whenever it changes: how m is chosen (UserConfig).

        Requests under way go on. Raises ConfigError naming what is wrong.
        """
        await unwrapped(self._worker.choose_m.remote(self._config.budget(user_config)))

    async def describe(self) -> ModelCard:
        return self._card

    async def generate(self, request: GenerationRequest) -> AsyncIterator[TokenDelta]:
        """Deltas of one request, the last with a finish reason. Closing the iterator aborts the request.

        Raises MigratedError when this replica is to go or its engine is lost already, VerifierLostError when
        it is lost on the way, ModelReplacedError for a request of another model.
        """
        self._check_open()
        self._check_model(request)
        # A router that lost the connection, not the verifier, may be back before its first try has ended.
        request = replace(request, request_id=f"{request.request_id}/{uuid4().hex[:8]}")
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

    async def record_routing_stats(self) -> dict[str, Any]:
        """What routers choose by (router/routing.py). Coarse: Serve tells every router of each change."""
        kv_usage = (await self.stats())["kv_usage"]
        return {
            "requests": _coarse(len(self._streams)),
            "kv_usage": round(kv_usage, 1 if kv_usage < 0.9 else 2),
            "fingerprint": self._card.fingerprint,
            "tokenizer": self._tokenizer,
        }

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

    def _check_open(self) -> None:
        """Routers learn a little later that they have to go elsewhere: nothing is lost by trying here."""
        if self._lost is not None:
            raise MigratedError("this verifier has lost its engine and takes no requests")
        if self._hand_back is not None:
            raise MigratedError("this verifier is to go and takes no requests")

    def _check_model(self, request: GenerationRequest) -> None:
        if request.fingerprint not in (None, self._card.fingerprint):
            raise ModelReplacedError("the model that began this request is no longer served; ask again")
        if request.tokenizer not in (None, self._tokenizer):
            raise TokenizerReplacedError("another model is served now; ask again")

    def _in_service(self, in_service: bool) -> None:
        """Serve has put this replica into service, or taken it out: then what takes long ends elsewhere."""
        if self._hand_back is not None:
            self._hand_back.cancel()
            self._hand_back = None
        if not in_service:
            drain_s = self._config.replicas.verifier_drain_s
            logger.info("going", extra={"fields": {"requests": len(self._streams), "drain_s": drain_s}})
            self._hand_back = asyncio.get_running_loop().call_later(drain_s, self._migrate)

    def _migrate(self) -> None:
        logger.info("handing back", extra={"fields": {"requests": len(self._streams)}})
        for stream in self._streams.values():
            stream.fail(MigratedError("the verifier is to go; the request goes on elsewhere"))

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


def _coarse(count: int) -> int:
    """Its first two binary digits: 0, 1, 2, 3, 4, 6, 8, 12, 16, ..."""
    rest = max(0, count.bit_length() - 2)
    return count >> rest << rest
