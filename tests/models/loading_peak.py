"""How much memory loading a part of a model takes, measured in a process of its own.

Kept apart from the tests: that process imports this file, and nothing slow.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from serving.models.architecture import Architecture
from serving.models.decoder import Decoder
from serving.models.linear import TorchLinearOps
from serving.models.sharding import Shard
from serving.models.weights import Weights


def peak_of_loading(folder: Path, shard: Shard) -> int:
    """Bytes, in a process of its own."""
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=_load, args=(folder, shard, theirs))
    process.start()
    peak: int = ours.recv()
    process.join()
    return peak


def _load(folder: Path, shard: Shard, answer: Connection) -> None:
    torch.set_num_threads(1)
    architecture, ops = Architecture.from_folder(folder), TorchLinearOps(1e-6)
    before = _private_bytes()
    with _highest() as seen:
        decoder = Decoder.load(
            architecture, Weights.open(folder), ops, torch.float32, torch.device("cpu"), shard
        )
    answer.send(max(seen) - before)
    assert len(decoder.layers) == architecture.num_layers


@contextmanager
def _highest() -> Iterator[list[int]]:
    """Looks every half millisecond."""
    seen, done = [_private_bytes()], threading.Event()

    def look() -> None:
        while not done.wait(0.0005):
            seen.append(_private_bytes())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()
        seen.append(_private_bytes())


def _private_bytes() -> int:
    """Memory that belongs to this process alone. Pages of the weight files are the system's cache."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (kib,) = [line.split()[1] for line in lines if line.startswith("RssAnon:")]
    return 1024 * int(kib)
