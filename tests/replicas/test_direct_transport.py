"""Features that go from process to process by Ray Direct Transport, over gloo."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import ray
import torch
from ray.actor import ActorHandle

from serving.config import ServeConfig
from serving.drafting.messages import Extend, Open, Proposal, Propose, SeqKey
from serving.metrics import WireMetrics
from serving.replicas import direct_transport
from serving.replicas.direct_transport import DirectTransport
from serving.replicas.drafter_worker import DrafterWorker
from serving.replicas.feature_wire import LARGE, FeatureWire, joined_again
from serving.replicas.leases import Leased
from serving.replicas.pool_channel import PoolChannel
from serving.spec.tree import DraftTree

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

ROWS = 4
LEASE_S = 2.0
PATIENCE_S = 60.0  # until something counts as hanging, however busy the machine is


class Summing(DrafterWorker):
    """Answers with the sum of each sequence's features."""

    def submit(self, opens: Sequence[Open], propose: Propose, features: Any = None) -> Proposal:
        assert features is not None
        sums = [int(e.features.sum()) for e in joined_again(propose, np.asarray(features)).extends]
        trees = (
            DraftTree.build(extend.key.seq_id, extend.base_len, [total], [-1], [-1.0])
            for extend, total in zip(propose.extends, sums, strict=True)
        )
        return Proposal(tuple(trees), (), 0.0)


class Verifier:
    """Sends each drafter features of its sequences, and hears their sums."""

    def start(self, workers: list[ActorHandle[DrafterWorker]], lease_s: float = 60.0) -> None:
        self.direct = DirectTransport(lease_s)
        self.metrics = WireMetrics("test")
        leased = [
            Leased(str(i), worker, carrier=carrier)
            for i, (worker, carrier) in enumerate(zip(workers, self.direct.carriers(workers), strict=True))
        ]
        self.channel = PoolChannel(lambda _: leased, PATIENCE_S, FeatureWire(self.metrics))

    def renew(self, workers: list[ActorHandle[DrafterWorker]]) -> None:
        self.direct.carriers(workers)

    def sums(self, *seq_ids: int) -> dict[int, int]:
        """By sequence, of those whose sum came."""
        keys = [SeqKey("test", seq_id) for seq_id in seq_ids]
        tokens = np.zeros(ROWS, np.int32)
        extends = tuple(
            Extend(key, 0, ROWS + 1, tokens, 0, np.full((ROWS, LARGE), key.seq_id, np.uint16)) for key in keys
        )
        opens = [Open(key, "any", 0, 0, 0.0) for key in keys]
        self.channel.submit(opens, Propose(extends, (1,) * len(keys), (1,) * len(keys)))
        return {tree.seq_id: int(tree.token_ids[0]) for tree in self.channel.collect().trees}

    def paths(self) -> set[str]:
        """That features have taken since the last call."""
        taken, self.metrics.bytes = set(self.metrics.bytes), {}
        return taken


class AsyncVerifier(Verifier):
    """An asyncio actor whose channel is used in a thread, as rank 0's is."""

    async def run(self, method: str, *args: Any) -> Any:
        return await asyncio.to_thread(getattr(Verifier, method), self, *args)


def actor(kind: type[Any], *args: Any) -> ActorHandle[Any]:
    return ray.remote(kind).options(num_cpus=0, enable_tensor_transport=True).remote(*args)


def drafter() -> ActorHandle[Summing]:
    return actor(Summing, ServeConfig.load({"speculation.method": "prompt_lookup"}, environ={}))


class Held(NamedTuple):
    pairs: int
    files: int


def held(self: Any = None) -> Held:
    """By this process: pairs have a thread each."""
    pairs = sum(thread.name == "direct-transport" for thread in threading.enumerate())
    return Held(pairs, len(os.listdir("/proc/self/fd")))


def held_by(process: ActorHandle[Any]) -> Held:
    return ray.get(process.__ray_call__.remote(held))


def killed(process: ActorHandle[Any]) -> None:
    os.kill(ray.get(process.__ray_call__.remote(lambda self: os.getpid())), signal.SIGKILL)


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.05)


def ask_for_nothing_there(self: Any) -> None:
    (group,) = direct_transport._HERE.joined.values()
    group.send([torch.tensor([10**9])], direct_transport.VERIFIER, direct_transport.TENSORS).wait()


def until_right(sums: Callable[..., dict[int, int]], *seq_ids: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while sums(*seq_ids) != {seq_id: seq_id * ROWS * LARGE for seq_id in seq_ids}:
        assert time.monotonic() < end


def test_features_arrive_and_take_the_object_store_from_the_first_failure_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = drafter()
    ray.get(worker.ping.remote())
    verifier = Verifier()
    verifier.start([worker])
    until_right(verifier.sums, 1, 2)
    assert verifier.paths() == {"rdt"}
    ray.get(worker.__ray_call__.remote(lambda self: direct_transport._HERE.joined.clear()))
    until_right(verifier.sums, 1, 2)
    assert verifier.paths() == {"rdt", "object_store"}
    until_right(verifier.sums, 1, 2)
    assert verifier.paths() == {"object_store"}
    assert "direct transport to a drafter failed" in caplog.text
    ray.kill(worker)
    eventually(lambda: held().pairs == 0)


@pytest.mark.slow
def test_several_verifiers_and_drafters_and_one_that_dies() -> None:
    """Ray's own transport over gloo allows neither, and kills the verifier with the drafter."""
    drafters, verifiers = [drafter(), drafter()], [actor(AsyncVerifier), actor(AsyncVerifier)]
    ray.get([verifier.run.remote("start", drafters) for verifier in verifiers])
    for alive in (2, 1):
        for verifier in verifiers:
            for settled in (False, True):  # the last features for the dead one take any path
                until_right(lambda *ids, to=verifier: ray.get(to.run.remote("sums", *ids)), 1, 2, 3)
                paths = ray.get(verifier.run.remote("paths"))
                assert paths == {"rdt"} or not settled
        if alive == 2:
            killed(drafters[0])


@pytest.mark.slow
def test_nothing_is_left_of_a_pair_whatever_ends_it() -> None:
    """Threads and file descriptors, on both sides."""
    first, second, verifier = drafter(), drafter(), actor(AsyncVerifier)

    def renew(*workers: ActorHandle[Any]) -> None:
        ray.get(verifier.run.remote("renew", list(workers)))

    ray.get(verifier.run.remote("start", [first, second], LEASE_S))
    assert [held_by(each).pairs for each in (verifier, first, second)] == [2, 1, 1]
    # The lease is not renewed, and the drafters hear nothing.
    eventually(lambda: all(held_by(each).pairs == 0 for each in (verifier, first, second)))
    before = {each: held_by(each).files for each in (verifier, first, second)}

    def is_left(*processes: ActorHandle[Any]) -> bool:
        found = {each: held_by(each) for each in processes}
        return any(found[each].pairs or found[each].files > before[each] for each in processes)

    def renewed_and_gone(worker: ActorHandle[Any], other: ActorHandle[Any]) -> bool:
        renew(worker)
        return not is_left(other)

    renew(first, second)
    assert is_left(first)
    assert is_left(second)
    # One is not leased any more.
    eventually(lambda: renewed_and_gone(first, second))
    with_one = held_by(verifier)
    assert [with_one.pairs, held_by(first).pairs] == [1, 1]
    # It is leased again, and dies.
    renew(first, second)
    assert held_by(verifier).pairs == 2
    killed(second)
    eventually(lambda: held_by(verifier).pairs == 1 and held_by(verifier).files <= with_one.files)
    # The other one asks for what there is not.
    ray.get(first.__ray_call__.remote(ask_for_nothing_there))
    eventually(lambda: not is_left(first, verifier))
    # The verifier dies.
    time.sleep(LEASE_S)
    renew(first)
    assert held_by(first).pairs == 1
    killed(verifier)
    eventually(lambda: not is_left(first))
