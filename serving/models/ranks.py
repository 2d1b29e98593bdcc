"""The processes that share a network: what they tell each other while they compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # documented, but not in __all__

from serving.errors import RankLostError
from serving.models.sharding import Shard

# A rank waits for as long as nobody asks for anything. Who hangs is found by health checks; who dies closes
# its connections, which ends every wait for it.
FOREVER = timedelta(days=365)
JOIN_TIMEOUT = timedelta(minutes=10)
HEAD = 8192  # int32 of a message that travel at once; the rest of a longer one follows


class Meeting(NamedTuple):
    """Where ranks find each other: an address of rank 0's process."""

    host: str
    port: int


class Host:
    """Rank 0's side of a meeting. It must live until all have joined."""

    def __init__(self, host: str, size: int) -> None:
        self._store = TCPStore(host, 0, size, is_master=True, wait_for_workers=False)
        self.meeting = Meeting(host, self._store.port)


@dataclass(slots=True)
class Spent:
    """Seconds that this rank gave to the others since it joined, those it waited for them included.

    control: telling them what to do, in so many messages and bytes. sums, logits: joining what they computed.
    """

    control: float = 0.0
    sums: float = 0.0
    logits: float = 0.0
    messages: int = 0
    message_bytes: int = 0

    @contextmanager
    def measure(self, what: str) -> Iterator[None]:
        started = perf_counter()
        yield
        setattr(self, what, getattr(self, what) + perf_counter() - started)


class Ranks:
    """All ranks of one verifier, seen from one of them. Every call is made by all, in the same order.

    Tensors travel by NCCL on GPUs and by gloo on CPUs; messages always by gloo. One group per process.
    Every method raises RankLostError when another rank is gone.
    """

    def __init__(self, meeting: Meeting, shard: Shard, *, ordered: bool) -> None:
        """ordered: add the parts of a sum in the order of the ranks, whatever its shape. On CPUs that is so
        anyway.
        """
        self.shard = shard
        self.spent = Spent()
        self._ordered = ordered
        self._head = torch.zeros(HEAD, dtype=torch.int32)
        self._received = self._joined = torch.empty(0, 0)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        with _talking():
            store = TCPStore(*meeting, shard.size, is_master=False, timeout=JOIN_TIMEOUT)
            dist.init_process_group(
                backend, store=store, rank=shard.rank, world_size=shard.size, timeout=FOREVER
            )

    def leave(self) -> None:
        """Of all together, or alone when the others are lost."""
        dist.destroy_process_group()

    def share(self, value: Any) -> Any:
        """Rank 0's value, anything that can be pickled."""
        box = [value]
        with _talking():
            dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
        return box[0]

    def least(self, value: int) -> int:
        """The smallest of the ranks' values."""
        box = torch.tensor([value])
        with _talking():
            dist.all_reduce(box, dist.ReduceOp.MIN)
        return int(box[0])

    def tell(self, message: NDArray[np.int32]) -> None:
        """Rank 0: send a message, not empty, to all others, who `hear` it."""
        self.spent.messages += 1
        self.spent.message_bytes += message.nbytes
        self._head[0] = len(message)
        whole = torch.from_numpy(message)
        at_once = min(len(message), HEAD - 1)
        self._head[1 : 1 + at_once] = whole[:at_once]
        with _talking():
            dist.broadcast(self._head, src=0)
            if len(message) > at_once:
                dist.broadcast(whole[at_once:], src=0)

    def hear(self) -> NDArray[np.int32]:
        """The next message, valid until the one after it."""
        with _talking():
            dist.broadcast(self._head, src=0)
            length = int(self._head[0])
            if length < HEAD:
                return self._head[1 : 1 + length].numpy()
            whole = torch.empty(length, dtype=torch.int32)
            whole[: HEAD - 1] = self._head[1:]
            dist.broadcast(whole[HEAD - 1 :], src=0)
        return whole.numpy()

    def sum(self, part: Tensor) -> Tensor:
        """The sum of all ranks' parts [rows, n], the same bits on every rank. `part` may be overwritten.

        An all-reduce may add in another order for another number of rows, or at another place in the tensor:
        gathering the parts and adding them in order makes a row's sum a function of that row alone.
        """
        with self.spent.measure("sums"):
            return self._sum(part)

    def columns(self, part: Tensor) -> Tensor:
        """Rank 0: all ranks' [rows, n] side by side, valid until the next call. Others get their own back."""
        with self.spent.measure("logits"):
            return self._columns(part)

    def _sum(self, part: Tensor) -> Tensor:
        with _talking():
            if not self._ordered and part.device.type != "cpu":
                dist.all_reduce(part)
                return part
            parts = part.new_empty(self.shard.size * len(part), part.shape[1])
            dist.all_gather_single(parts, part.contiguous())
        first, *others = parts.chunk(self.shard.size)
        for other in others:
            first += other
        return first

    def _columns(self, part: Tensor) -> Tensor:
        rows, width = part.shape
        part = part.contiguous()
        if rows == 0:
            return part.new_empty(0, width * self.shard.size)
        if self.shard.rank:
            with _talking():
                dist.gather(part, dst=0)
            return part
        if self._received.shape[1] < rows:  # fresh megabytes cost page faults on every step
            self._received = part.new_empty(self.shard.size, rows, width)
            self._joined = part.new_empty(rows, width * self.shard.size)
        parts = list(self._received[:, :rows])
        with _talking():
            dist.gather(part, parts, dst=0)
        return torch.cat(parts, dim=1, out=self._joined[:rows])


@contextmanager
def _talking() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # all that torch.distributed raises is one
        raise RankLostError("another rank of this verifier is lost") from error
