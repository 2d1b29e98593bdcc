"""Requests that outlive their verifier: what it had said is kept, and another one goes on from there.

A verifier may be lost, or hand its requests back because it is to go; only losses are counted and limited.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from time import monotonic

from serving.config import RouterConfig
from serving.errors import (
    CanopyError,
    MigratedError,
    OverloadedError,
    UnavailableError,
    VerifierLostError,
)
from serving.metrics import RouterMetrics
from serving.router.backend import Backend
from serving.types import GenerationRequest, ModelCard, SpeculationStats, TokenDelta

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0


class Replaying:
    """A `Backend` in front of another.

    A request is a function of its own fields, noise included: continued with the tokens that were received,
    it says what it would have said. One that no verifier has taken does not wait: its client learns at once
    that nothing is ready.
    """

    def __init__(self, backend: Backend, config: RouterConfig, metrics: RouterMetrics) -> None:
        self._backend = backend
        self._config = config
        self._metrics = metrics

    async def describe(self) -> ModelCard:
        return await self._backend.describe()

    async def ping(self) -> None:
        await self._backend.ping()

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[TokenDelta, None]:
        """Raises what the backend raises, once there were too many losses or too long a wait."""
        so_far = _SoFar(request)
        losses = _Losses(self._config)
        while True:
            try:
                async with aclosing(self._backend.generate(so_far.rest)) as deltas:
                    async for delta in deltas:
                        losses.wait_is_over()
                        yield so_far.add(delta)
                return
            except (UnavailableError, OverloadedError) as error:
                pause_s = losses.pause_s(error)
                if pause_s is None:
                    self._metrics.rejected(error.code)
                    raise
                self._tell(error, so_far)
            so_far.lose()
            await asyncio.sleep(pause_s)

    def _tell(self, error: CanopyError, so_far: _SoFar) -> None:
        fields = {"request_id": so_far.rest.request_id, "tokens": so_far.num_tokens}
        if isinstance(error, VerifierLostError):
            logger.warning("a request has lost its verifier", extra={"fields": fields})
            self._metrics.replayed("lost")
        elif isinstance(error, MigratedError):
            logger.info("a request is handed back", extra={"fields": fields})
            self._metrics.replayed("migrated")


class _SoFar:
    """What has been received of a request, and what is left to ask for."""

    def __init__(self, request: GenerationRequest) -> None:
        self.rest = self._whole = request
        self._received: list[int] = []
        self._first: TokenDelta | None = None
        self._latest: TokenDelta | None = None  # of the verifier that works on it now
        self._earlier = SpeculationStats()  # of verifiers that were lost

    def add(self, delta: TokenDelta) -> TokenDelta:
        """The delta as if it came from the one verifier that did it all."""
        self._received.extend(delta.token_ids)
        self._first, self._latest = self._first or delta, delta
        if self.rest is self._whole:
            return delta
        return replace(delta, cached_tokens=self._first.cached_tokens, stats=self._total())

    @property
    def num_tokens(self) -> int:
        """Received so far."""
        return len(self.rest.output_ids) + len(self._received)

    def lose(self) -> None:
        """The verifier is gone, what it said is not."""
        self._earlier = self._total()
        if self._latest is not None:
            output = (*self.rest.output_ids, *self._received)
            self.rest = replace(self.rest, output_ids=output, fingerprint=self._latest.fingerprint)
        self._received, self._latest = [], None

    def _total(self) -> SpeculationStats:
        total = SpeculationStats()
        total.add(self._earlier)
        if self._latest is not None and self._latest.stats is not None:
            total.add(self._latest.stats)
        return total


class _Losses:
    """How often the request was lost, and since when it has been waiting."""

    def __init__(self, config: RouterConfig) -> None:
        self._left, self._wait_s = config.max_replays, config.replay_wait_s
        self._waiting_since: float | None = None
        self._pause_s = FIRST_PAUSE_S

    def wait_is_over(self) -> None:
        self._waiting_since, self._pause_s = None, FIRST_PAUSE_S

    def pause_s(self, error: CanopyError) -> float | None:
        """How long to wait before the next try; None: there is to be none."""
        if isinstance(error, VerifierLostError):
            if not self._left:
                return None
            self._left -= 1
        if isinstance(error, VerifierLostError | MigratedError):
            self._waiting_since = self._waiting_since or monotonic()
        if self._waiting_since is None or monotonic() - self._waiting_since >= self._wait_s:
            return None
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, LONGEST_PAUSE_S)
        return pause_s
