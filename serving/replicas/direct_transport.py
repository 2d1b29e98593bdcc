"""Ray Direct Transport between verifiers and drafters: tensors go from process to process over gloo.

Ray brings transports of its own, but its gloo wants one collective group per process, made once, and when a
transfer fails it kills both ends: one dead drafter would take every verifier along. So this is a transport
of ours, by Ray's public (alpha) interface for them: every verifier and drafter have a gloo group for
themselves, which ends with either of them and harms nobody else.

    verifier   ray.put(features)          recv number      send bytes
    drafter                 __ray_recv__: send number      recv bytes
"""

from __future__ import annotations

import itertools
import logging
import threading
import uuid
from collections.abc import Iterator
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

logger = logging.getLogger(__name__)

NAME = "CANOPY_GLOO"
PATH = "rdt"  # as metrics name it
# A verifier waits for a drafter's next wish for as long as nobody asks for anything.
FOREVER = timedelta(days=365)
# For a tensor to come.
PATIENCE = timedelta(seconds=5)
# For a pair to meet, which is done once, beside the step loop.
MEETING = timedelta(seconds=20)
VERIFIER, DRAFTER = 0, 1  # ranks of a pair


class Meeting(NamedTuple):
    """Where a drafter finds its verifier, and the pair's name there."""

    host: str
    port: int
    pair: str


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
        return actor._actor_id.hex() in _HERE.pair_of

    def extract_tensor_transport_metadata(self, obj_id: str, rdt_object: list[Tensor]) -> Described:
        number = next(_HERE.numbers)
        _HERE.outgoing[number] = rdt_object
        return Described([(t.shape, t.dtype) for t in rdt_object], "cpu", number)

    def get_communicator_metadata(
        self, src_actor: Any, dst_actor: ActorHandle[Any], backend: str | None = None
    ) -> Between:
        return Between(_HERE.pair_of[dst_actor._actor_id.hex()])

    def recv_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: TensorTransportMetadata,
        communicator_metadata: CommunicatorMetadata,
        target_buffers: list[Tensor] | None = None,
    ) -> list[Tensor]:
        assert isinstance(tensor_transport_metadata, Described)
        assert isinstance(communicator_metadata, Between)
        group = _HERE.joined[communicator_metadata.pair]
        described: Any = tensor_transport_metadata.tensor_meta
        tensors = target_buffers or [torch.empty(shape, dtype=dtype) for shape, dtype in described]
        group.send([torch.tensor([tensor_transport_metadata.number])], VERIFIER, 0).wait(PATIENCE)
        for tensor in tensors:
            group.recv([_bytes(tensor)], VERIFIER, 0).wait(PATIENCE)
        return tensors

    def send_multiple_tensors(self, *_: Any) -> None:
        raise AssertionError("receivers pull")

    def garbage_collect(self, obj_id: str, tensor_transport_meta: Any, tensors: list[Tensor]) -> None:
        _HERE.outgoing.pop(tensor_transport_meta.number, None)

    def abort_transport(self, obj_id: str, communicator_metadata: CommunicatorMetadata) -> None:
        """Nothing is held up for longer than PATIENCE."""


def join(meeting: Meeting) -> None:
    """The drafter's side of `DirectTransport.carrier`. Raises RuntimeError when they do not meet."""
    store = TCPStore(meeting.host, meeting.port, is_master=False, timeout=MEETING)
    _HERE.joined[meeting.pair] = _group(store, meeting.pair, DRAFTER)


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
            reason = str(error).strip().rpartition("\n")[2]
            logger.warning("direct transport to a drafter failed, its features go through Ray: %s", reason)
            self.path = OBJECT_STORE.path
        return True


class DirectTransport:
    """A verifier's pairs with its drafters."""

    def __init__(self) -> None:
        register_tensor_transport(NAME, ["cpu"], GlooPairs, torch.Tensor)
        self._host = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        self._store = TCPStore(self._host, 0, is_master=True, wait_for_workers=False)
        self._carriers: dict[str, DirectCarrier] = {}

    def carrier(self, worker: ActorHandle[Any]) -> DirectCarrier:
        """To this drafter; the same for it ever after. Blocks while they meet for the first time."""
        name = worker._actor_id.hex()
        if name not in self._carriers:
            self._carriers[name] = DirectCarrier()
            try:
                self._meet(worker, name)
            except Exception as error:  # of torch, gloo or Ray, which is alpha here
                self._carriers[name].give_up(PATH, error)
        return self._carriers[name]

    def _meet(self, worker: ActorHandle[Any], name: str) -> None:
        pair = uuid.uuid4().hex
        joined: ray.ObjectRef[None] = worker.join.remote(Meeting(self._host, self._store.port, pair))
        group = _group(self._store, pair, VERIFIER)
        ray.get(joined, timeout=MEETING.total_seconds())
        _HERE.pair_of[name] = pair
        threading.Thread(target=_serve, args=(group,), name="direct-transport", daemon=True).start()
        probe = ray.put(torch.zeros(1), _tensor_transport=NAME)
        ray.get(worker.ping.remote(probe), timeout=MEETING.total_seconds())


def _serve(group: ProcessGroup) -> None:
    """Send what the drafter asks for, until it is gone."""
    wanted = torch.zeros(1, dtype=torch.int64)
    try:
        while True:
            group.recv([wanted], DRAFTER, 0).wait(FOREVER)
            for tensor in _HERE.outgoing[int(wanted)]:
                group.send([_bytes(tensor)], DRAFTER, 0).wait(PATIENCE)
    except RuntimeError as error:  # gloo's for a closed connection
        logger.info("a drafter's direct transport has ended: %s", error)


def _group(store: TCPStore, pair: str, rank: int) -> ProcessGroup:
    return cast(ProcessGroup, ProcessGroupGloo(PrefixStore(pair, store), rank, 2, MEETING))


def _bytes(tensor: Tensor) -> Tensor:
    """Whatever its type is, gloo moves its bytes."""
    return tensor.view(-1).view(torch.uint8)
