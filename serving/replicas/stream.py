"""Deltas of one request on their way to a consumer that sets the pace."""

from __future__ import annotations

import asyncio
from copy import copy

from serving.types import TokenDelta


class DeltaStream:
    """One producer, one consumer, one event loop. What has not been taken yet is merged into one delta."""

    def __init__(self) -> None:
        self._pending: TokenDelta | None = None
        self._error: Exception | None = None
        self._news = asyncio.Event()

    def put(self, delta: TokenDelta) -> None:
        if self._error is not None:
            return
        self._pending = delta if self._pending is None else self._pending.merged(delta)
        self._news.set()

    def fail(self, error: Exception) -> None:
        """Nothing more is taken, or the consumer of a fast producer would not hear of it."""
        self._error = error
        self._news.set()

    async def take(self) -> TokenDelta:
        """Everything since the last call; waits for it. After the last delta raises what `fail` was given."""
        await self._news.wait()
        delta, self._pending = self._pending, None
        if delta is None:
            assert self._error is not None
            raise copy(self._error)  # whose frames refer to this stream
        if self._error is None:
            self._news.clear()
        return delta
