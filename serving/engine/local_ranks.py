"""The other ranks of an engine as processes of this machine, for whoever runs an engine without Ray."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from serving.config import ServeConfig
from serving.engine.followers import Followers
from serving.engine.rank import Rank
from serving.errors import CanopyError
from serving.models.ranks import Host, Meeting, Ranks
from serving.models.sharding import Shard

LOCALHOST = "127.0.0.1"
END_TIMEOUT_S = 10.0


@contextmanager
def local_ranks(config: ServeConfig) -> Iterator[Ranks]:
    """What `build_engine` wants for the configured number of ranks. The processes end with the context.

    The engine must not be used afterwards. A rank that fails says why on standard error.
    """
    size = config.engine.tensor_parallel_size
    host = Host(LOCALHOST, size)
    # Forked from a process that has imported this file, and nothing that threads could have locked.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    processes = [
        context.Process(target=_run, args=(config, host.meeting, Shard(rank, size)), daemon=True)
        for rank in range(1, size)
    ]
    for process in processes:
        process.start()
    try:
        ranks = Ranks(host.meeting, Shard(0, size), ordered=config.engine.deterministic)
        try:
            yield ranks
            Followers(ranks, config.engine.block_size).end()
        finally:
            ranks.leave()
    finally:
        for process in processes:
            process.join(END_TIMEOUT_S)
            process.kill()
            process.join()


def _run(config: ServeConfig, meeting: Meeting, shard: Shard) -> None:
    try:
        ranks = Ranks(meeting, shard, ordered=config.engine.deterministic)
        Rank(config, ranks).follow()
        ranks.leave()
    except CanopyError as error:
        sys.stderr.write(f"rank {shard.rank}: {error}\n")
        os._exit(1)  # rank 0 may be waiting for this one: its connections close now
