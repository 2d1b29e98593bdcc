"""Ray Direct Transport between verifiers and drafters: tensors go from process to process over gloo.

Ray brings transports of its own, but its gloo wants one collective group per process, made once, and when a
transfer fails it kills both ends: one dead drafter would take every verifier along. So this is a transport
of ours, by Ray's public (alpha) interface for them: every verifier and drafter have a gloo group for
themselves, which ends with either of them and harms nobody else.

    verifier   ray.put(features)          recv number      send bytes      send sign
    drafter                 __ray_recv__: send number      recv bytes      recv sign

A pair ends with the verifier's lease. On both sides a thread waits for the other's next word, so both hear at
once when the connection is closed, by whatever killed a process; where a machine is gone without a word, the
drafter misses the signs that come with every renewal, and the verifier's lease of such a drafter ends.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, cast

import ray
import torch
from ray.actor import ActorHandle
from ray.experimental import register_tensor_transport
from ray.experimental.rdt.tensor_transport_manager import (
    CommunicatorMetadata,
    TensorTransportManager,
    TensorTransportMetadata,
)
from torch import Tensor
from torch.distributed import (  # type: ignore[attr-defined]  # documented, but not in __all__
    PrefixStore,
    ProcessGroup,
    ProcessGroupGloo,
    TCPStore,
)

from serving.replicas.feature_wire import OBJECT_STORE, Array, Carrier
from serving.replicas.lease_book import LEASE_S

logger = logging.getLogger(__name__)

NAME = "CANOPY_GLOO"
PATH = "rdt"  # as metrics name it
# A verifier waits for a drafter's next wish for as long as nobody asks for anything.
FOREVER = timedelta(days=365)
# For a tensor to come.
PATIENCE = timedelta(seconds=5)
# For a pair to meet, which is done once, beside the step loop.
MEETING = timedelta(seconds=20)
AT_ONCE = timedelta(milliseconds=1)
VERIFIER, DRAFTER = 0, 1  # ranks of a pair
TENSORS, SIGNS, CLOSING = range(3)  # tags


class Meeting(NamedTuple):
    """Where a drafter finds its verifier, the pair's name there, and how long it waits for a sign of it."""

    host: str
    port: int
    pair: str
    patience_s: float


@dataclass
class Described(TensorTransportMetadata):
    """number: what the source knows the tensors by."""

    number: int = 0


@dataclass
class Between(CommunicatorMetadata):
    pair: str = ""


@dataclass(frozen=True)
class _Process:
    """What this process holds: Ray makes the transport's object itself, and out of reach.

    joined: as a drafter, by pair. pair_of: as a verifier, by the drafter's actor id. outgoing: by number.
    """

    joined: dict[str, ProcessGroup] = field(default_factory=dict)
    pair_of: dict[str, str] = field(default_factory=dict)
    outgoing: dict[int, list[Tensor]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)


_HERE = _Process()


class GlooPairs(TensorTransportManager):
    """Receivers pull; sources answer in a thread for each pair."""

    def tensor_transport_backend(self) -> str:
        return NAME

    @staticmethod
    def is_one_sided() -> bool:
        return True

    @staticmethod
    def can_abort_transport() -> bool:
        return True

    def actor_has_tensor_transport(self, actor: ActorHandle[Any]) -> bool:
        return _id(actor) in _HERE.pair_of

    def extract_tensor_transport_metadata(self, obj_id: str, rdt_object: list[Tensor]) -> Described:
        number = next(_HERE.numbers)
        _HERE.outgoing[number] = rdt_object
        return Described([(t.shape, t.dtype) for t in rdt_object], "cpu", number)

    def get_communicator_metadata(
        self, src_actor: Any, dst_actor: ActorHandle[Any], backend: str | None = None
    ) -> Between:
        return Between(_HERE.pair_of[_id(dst_actor)])

    def recv_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: TensorTransportMetadata,
        communicator_metadata: CommunicatorMetadata,
        target_buffers: list[Tensor] | None = None,
    ) -> list[Tensor]:
        assert isinstance(tensor_transport_metadata, Described)
        assert isinstance(communicator_metadata, Between)
        group = _HERE.joined.get(communicator_metadata.pair)
        if group is None:
            raise RuntimeError("the verifier's direct transport has ended")
        described: Any = tensor_transport_metadata.tensor_meta
        tensors = target_buffers or [torch.empty(shape, dtype=dtype) for shape, dtype in described]
        group.send([torch.tensor([tensor_transport_metadata.number])], VERIFIER, TENSORS).wait(PATIENCE)
        for tensor in tensors:
            group.recv([_bytes(tensor)], VERIFIER, TENSORS).wait(PATIENCE)
        return tensors

    def send_multiple_tensors(self, *_: Any) -> None:
        raise AssertionError("receivers pull")

    def garbage_collect(self, obj_id: str, tensor_transport_meta: Any, tensors: list[Tensor]) -> None:
        _HERE.outgoing.pop(tensor_transport_meta.number, None)

    def abort_transport(self, obj_id: str, communicator_metadata: CommunicatorMetadata) -> None:
        """Nothing is held up for longer than PATIENCE."""


def join(meeting: Meeting) -> None:
    """The drafter's side of `DirectTransport.carriers`. Raises RuntimeError when they do not meet."""
    store = TCPStore(meeting.host, meeting.port, is_master=False, timeout=MEETING)
    group = _HERE.joined[meeting.pair] = _group(store, meeting.pair, DRAFTER)
    _in_thread(_listen, group, meeting)


def _listen(group: ProcessGroup, meeting: Meeting) -> None:
    """Keep the pair until its verifier is gone, or has not renewed its lease."""
    sign = torch.zeros(1)
    try:
        while True:
            group.recv([sign], VERIFIER, SIGNS).wait(timedelta(seconds=meeting.patience_s))
    except Exception as error:
        _tell("verifier", error)
    finally:
        _HERE.joined.pop(meeting.pair, None)


class DirectCarrier(Carrier):
    """Goes over to the object store when it fails once."""

    def __init__(self) -> None:
        self.path = PATH

    def put(self, array: Array) -> ray.ObjectRef[Array]:
        if self.path != PATH:
            return OBJECT_STORE.put(array)
        return ray.put(torch.from_numpy(array), _tensor_transport=NAME)  # type: ignore[arg-type]

    def give_up(self, path: str, error: Exception) -> bool:
        if path != PATH:
            return False
        if self.path == PATH:
            logger.warning(
                "direct transport to a drafter failed, its features go through Ray: %s", _why(error)
            )
            self.end()
        return True

    def end(self) -> None:
        """What is put from now on takes the object store."""
        self.path = OBJECT_STORE.path


@dataclass(slots=True)
class _Way:
    """From this verifier to one drafter. until: the lease ends (`time.monotonic`). group: None before they
    have met, and from when one of them is gone."""

    until: float = 0.0
    carrier: DirectCarrier = field(default_factory=DirectCarrier)
    group: ProcessGroup | None = None

    def meet(self, worker: ActorHandle[Any], meeting: Meeting, store: TCPStore) -> None:
        """Blocks. Whatever torch, gloo or Ray raise, which is alpha here, the carrier does without them."""
        try:
            joined: ray.ObjectRef[None] = worker.join.remote(meeting)
            self.group = _group(store, meeting.pair, VERIFIER)
            ray.get(joined, timeout=MEETING.total_seconds())
            _HERE.pair_of[_id(worker)] = meeting.pair
            _in_thread(_serve, self, self.group)
            probe = ray.put(torch.zeros(1), _tensor_transport=NAME)
            ray.get(worker.ping.remote(probe), timeout=MEETING.total_seconds())
        except Exception as error:
            self.carrier.give_up(PATH, error)
            self.close()

    def renew(self) -> None:
        """Let the drafter know that it is still leased; where that cannot be, gloo closes the pair."""
        group = self.group
        if self.carrier.path != PATH:  # nobody will need it
            self.close()
        elif group is not None:
            with suppress(RuntimeError):
                group.send([torch.ones(1)], DRAFTER, SIGNS).wait(PATIENCE)

    def close(self) -> None:
        """A wait whose time is over makes gloo close the connection, which ends all other waits for it."""
        self.carrier.end()
        group, self.group = self.group, None
        if group is not None:
            with suppress(RuntimeError):
                group.recv([torch.zeros(1)], DRAFTER, CLOSING).wait(AT_ONCE)


class DirectTransport:
    """A verifier's pairs with its drafters."""

    def __init__(self, lease_s: float = LEASE_S) -> None:
        """lease_s: without a renewal, until a pair ends."""
        register_tensor_transport(NAME, ["cpu"], GlooPairs, torch.Tensor)
        self._host = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        self._store = TCPStore(self._host, 0, is_master=True, wait_for_workers=False)
        self._lease_s = lease_s
        self._ways: dict[str, _Way] = {}

    def carriers(self, workers: Sequence[ActorHandle[Any]]) -> list[Carrier]:
        """To the drafters that are leased now, the same for each as long as it is. Blocks while they meet for
        the first time. Those whose lease has ended are forgotten."""
        leased = {_id(worker) for worker in workers}
        self._forget_ended(leased)
        # Those that are known first: the others may take long to meet, or hang.
        for worker in sorted(workers, key=lambda worker: _id(worker) not in self._ways):
            self._renew(worker)
        return [self._ways[_id(worker)].carrier for worker in workers]

    def _forget_ended(self, leased: Set[str]) -> None:
        """A pair that is still leased is renewed however late that is, unless it has ended meanwhile."""
        now = time.monotonic()
        late = {drafter: way for drafter, way in self._ways.items() if way.until < now}
        for drafter in [each for each, way in late.items() if each not in leased or way.group is None]:
            self._ways.pop(drafter).close()
            _HERE.pair_of.pop(drafter, None)

    def _renew(self, worker: ActorHandle[Any]) -> None:
        way = self._ways.setdefault(_id(worker), _Way())
        if way.until:
            way.renew()
        else:
            pair = uuid.uuid4().hex
            way.meet(worker, Meeting(self._host, self._store.port, pair, 3 * self._lease_s), self._store)
        way.until = time.monotonic() + self._lease_s


def _serve(way: _Way, group: ProcessGroup) -> None:
    """Send what the drafter asks for, until it is gone or asks for what is not there any more."""
    wanted = torch.zeros(1, dtype=torch.int64)
    try:
        while True:
            group.recv([wanted], DRAFTER, TENSORS).wait(FOREVER)
            for tensor in _HERE.outgoing[int(wanted)]:
                group.send([_bytes(tensor)], DRAFTER, TENSORS).wait(PATIENCE)
    except Exception as error:
        _tell("drafter", error)
    finally:
        way.close()


def _id(actor: ActorHandle[Any]) -> str:
    return str(actor._actor_id.hex())


def _in_thread(what: Callable[..., None], *args: Any) -> None:
    threading.Thread(target=what, args=args, name="direct-transport", daemon=True).start()


def _tell(peer: str, error: Exception) -> None:
    logger.info("a %s's direct transport has ended: %s", peer, _why(error))


def _why(error: Exception) -> str:
    return str(error).strip().rpartition("\n")[2]


def _group(store: TCPStore, pair: str, rank: int) -> ProcessGroup:
    return cast(ProcessGroup, ProcessGroupGloo(PrefixStore(pair, store), rank, 2, MEETING))


def _bytes(tensor: Tensor) -> Tensor:
    """Whatever its type is, gloo moves its bytes."""
    return tensor.view(-1).view(torch.uint8)
