"""A rank of a verifier but the first: the process of a part of the model."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

import ray

from serving.config import ServeConfig
from serving.logs import configure_logging

if TYPE_CHECKING:
    from serving.engine.rank import Rank
    from serving.models.ranks import Meeting

logger = logging.getLogger(__name__)


class RankWorker:
    """Follows rank 0 in a thread of its own. The process ends when that does, well or not."""

    def __init__(self, config: ServeConfig, rank: int) -> None:
        configure_logging(config.log_level)
        self._config, self._rank = config, rank
        self._built: Future[int] = Future()
        self._ended = asyncio.Event()

    async def start(self, meeting: Meeting) -> int:
        """Join the others at rank 0's and load this rank's part. Returns the process id.

        Raises what loading raised.
        """
        self._events = asyncio.get_running_loop()
        threading.Thread(target=self._run, args=(meeting,), name="rank", daemon=True).start()
        return await asyncio.wrap_future(self._built)

    async def ping(self) -> None:
        """Answers while this rank computes or waits; only a process that is stuck as a whole does not."""

    async def end(self) -> None:
        """Does not return: it ends with the process, for whoever watches that."""
        await self._ended.wait()
        ray.actor.exit_actor()  # type: ignore[no-untyped-call]

    def _run(self, meeting: Meeting) -> None:
        try:
            rank = self._build(meeting)
            self._built.set_result(os.getpid())
        except BaseException as error:
            self._built.set_exception(error)
            return
        try:
            rank.follow()
        except BaseException:
            logger.exception("rank %d has failed; this process ends", self._rank)
        self._events.call_soon_threadsafe(self._ended.set)

    def _build(self, meeting: Meeting) -> Rank:
        """In the rank's thread: the number of torch's threads belongs to the thread that sets it."""
        from serving.engine.rank import Rank
        from serving.models.ranks import Ranks
        from serving.models.sharding import Shard

        engine = self._config.engine
        shard = Shard(self._rank, engine.tensor_parallel_size)
        return Rank(self._config, Ranks(meeting, shard, ordered=engine.deterministic))
