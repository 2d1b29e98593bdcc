"""The step loop's channel to drafter workers, with real worker processes that die and hang."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import ray
from ray.actor import ActorHandle

from serving.config import ServeConfig
from serving.drafting.messages import Close, Extend, Open, Proposal, Propose, SeqKey
from serving.metrics import WireMetrics
from serving.replicas.drafter_worker import DrafterWorker
from serving.replicas.feature_wire import LARGE, FeatureWire, joined_again
from serving.replicas.leases import Leased
from serving.replicas.pool_channel import PoolChannel
from serving.spec.accept import walk
from serving.spec.calibrator import Calibrator
from serving.spec.tree import DraftTree

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 0.25
PATIENCE_S = 60.0  # until something counts as hanging, however busy the machine is
TEXT = np.array([1, 2, 3, 4, 5, 6, 1, 2, 3], np.int32)  # 4 comes next if the past repeats itself

Worker = ActorHandle[DrafterWorker]


def start_worker(kind: type[DrafterWorker] = DrafterWorker) -> Worker:
    worker = (
        ray.remote(kind)
        .options(num_cpus=0)
        .remote(ServeConfig.load({"speculation.method": "prompt_lookup"}, environ={}))
    )
    worker.start.remote()
    return worker


def leased(worker: Worker, load: int = 0, near: bool = True) -> Leased:
    return Leased(worker._actor_id.hex(), worker, load, near)


def channel_to(
    *workers: Worker, lease: Callable[[], Iterable[Leased]] | None = None, deadline_s: float = PATIENCE_S
) -> PoolChannel:
    """deadline_s: so long by default that no worker is late for the machine's sake."""
    leases = lease or (lambda: [leased(worker) for worker in workers])
    return PoolChannel(lambda sequences: leases(), deadline_s, FeatureWire(WireMetrics("test")))


def pid_of(worker: Worker) -> int:
    return ray.get(worker.__ray_call__.remote(lambda self: os.getpid()))


def key(seq_id: int) -> SeqKey:
    return SeqKey("test", seq_id)


def opens(*seq_ids: int) -> list[Open]:
    return [Open(key(i), "any", seed=0, choice_index=0, temperature=0.0) for i in seq_ids]


def propose(*seq_ids: int) -> Propose:
    """From the start of the text: right for a sequence that has just been opened."""
    extends = tuple(Extend(key(i), 0, len(TEXT), TEXT[1:], first_token=int(TEXT[0])) for i in seq_ids)
    return Propose(extends, (4,) * len(extends), (4,) * len(extends))


def ask(channel: PoolChannel, *seq_ids: int) -> Proposal:
    channel.submit(opens(*seq_ids), propose(*seq_ids))
    return channel.collect()


def ask_until(channel: PoolChannel, right: Callable[[Proposal], bool], *seq_ids: int) -> Proposal:
    """Leases and answers to signals take their time: ask again until the proposal is right."""
    end = time.monotonic() + PATIENCE_S
    while not right(proposal := ask(channel, *seq_ids)):
        assert time.monotonic() < end, f"still {proposal}"
        time.sleep(0.05)
    return proposal


def drafted(*seq_ids: int) -> Callable[[Proposal], bool]:
    return lambda proposal: {tree.seq_id for tree in proposal.trees} == set(seq_ids)


@pytest.fixture
def worker() -> Worker:
    return start_worker()


def test_trees_come_back(worker: Worker) -> None:
    channel = channel_to(worker)
    proposal = ask_until(channel, drafted(7), 7)
    assert proposal.unknown == ()
    assert proposal.compute_s > 0
    (tree,) = proposal.trees
    assert tree.base_len == len(TEXT)
    assert tree.token_ids[0] == 4


def test_without_a_worker_everything_is_unknown_at_once() -> None:
    channel = channel_to()
    started = time.monotonic()
    assert ask(channel, 1, 2) == Proposal((), (key(1), key(2)), 0.0)
    assert time.monotonic() - started < PATIENCE_S / 2


def test_a_lease_that_raises_harms_nobody(worker: Worker) -> None:
    answers = iter([RuntimeError("the pool restarts"), [worker]])

    def lease() -> list[Leased]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return [leased(each) for each in answer]

    ask_until(channel_to(lease=lease), drafted(1), 1)


def test_a_killed_worker_is_replaced(worker: Worker) -> None:
    pool = [worker]
    channel = channel_to(lease=lambda: [leased(each) for each in pool])
    ask_until(channel, drafted(1, 2), 1, 2)
    os.kill(pid_of(worker), signal.SIGKILL)
    assert set(ask_until(channel, lambda p: not p.trees, 1, 2).unknown) == {key(1), key(2)}
    pool[:] = [worker, start_worker()]  # the pool may hand out the dead one for a while
    ask_until(channel, drafted(1, 2), 1, 2)


def test_a_new_worker_drafts_with_what_the_verifier_has_learned(worker: Worker) -> None:
    """The second is never told of the first's outcomes: the maps come with every message."""
    calibrator = Calibrator(refit_every=1)
    pool = [worker]
    channel = channel_to(lease=lambda: [leased(each) for each in pool])

    def ask_calibrated() -> DraftTree:
        asked = replace(propose(1), calibration=calibrator.maps)
        end = time.monotonic() + PATIENCE_S
        while True:
            channel.submit(opens(1), asked)
            trees = channel.collect().trees
            if trees:
                return trees[0]
            assert time.monotonic() < end
            time.sleep(0.05)

    raw = ask_calibrated()
    assert raw.log_confidence.tolist() == raw.raw.tolist()
    calibrator.observe([raw] * 1000, walk([raw] * 1000, lambda visits: [0] * len(visits)))
    first = ask_calibrated()
    assert first.log_confidence[0] < raw.log_confidence[0] - 1
    os.kill(pid_of(worker), signal.SIGKILL)
    pool[:] = [start_worker()]
    second = ask_calibrated()
    assert second.log_confidence.tolist() == first.log_confidence.tolist()
    assert second.raw.tolist() == raw.raw.tolist()


def test_a_late_worker_costs_one_deadline_and_comes_back(worker: Worker) -> None:
    channel = channel_to(worker, deadline_s=DEADLINE_S)
    ask_until(channel, drafted(1), 1)
    pid = pid_of(worker)
    os.kill(pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        assert ask(channel, 1) == Proposal((), (), 0.0)
        assert time.monotonic() - started > DEADLINE_S * 0.9
        assert ask(channel, 1) == Proposal((), (key(1),), 0.0), "unknown: it was not asked"
    finally:
        os.kill(pid, signal.SIGCONT)
    ask_until(channel, drafted(1), 1)


def test_a_drafter_that_always_takes_long_is_waited_for() -> None:
    class Slow(DrafterWorker):
        def submit(self, opens: Sequence[Open], propose: Propose, features: Any = None) -> Proposal:
            time.sleep(2 * DEADLINE_S)
            return replace(super().submit(opens, propose), compute_s=2 * DEADLINE_S)

    worker = start_worker(Slow)
    channel = channel_to(worker, deadline_s=DEADLINE_S)
    ask_until(channel, drafted(1), 1)


def test_sequences_are_spread_over_workers_and_stay_there() -> None:
    pair = [start_worker(), start_worker()]
    ray.get([worker.ping.remote() for worker in pair])
    channel = channel_to(*pair)
    ask_until(channel, drafted(1, 2, 3, 4), 1, 2, 3, 4)
    os.kill(pid_of(pair[0]), signal.SIGKILL)
    proposal = ask(channel, 1, 2, 3, 4)
    assert len(proposal.unknown) == 2
    assert {k.seq_id for k in proposal.unknown} | {t.seq_id for t in proposal.trees} == {1, 2, 3, 4}


def busy(worker: Worker) -> int:
    """Sequences that it holds for us."""
    return ray.get(worker.__ray_call__.remote(lambda self: len(self._drafter._held)))


def test_the_least_loaded_is_chosen_and_a_near_one_among_them() -> None:
    idle, crowded, far = start_worker(), start_worker(), start_worker()
    ray.get([worker.ping.remote() for worker in (idle, crowded, far)])
    leases = [leased(crowded, load=20), leased(far, near=False), leased(idle)]
    channel = channel_to(lease=lambda: leases)
    ask_until(channel, drafted(1, 2, 3), 1, 2, 3)
    assert [busy(worker) for worker in (idle, far, crowded)] == [3, 0, 0]
    ask_until(channel, drafted(*range(1, 13)), *range(1, 13))
    assert busy(crowded) == 0
    assert busy(far) >= 3
    assert busy(idle) > busy(far)


def test_sequences_of_a_late_worker_move_to_another() -> None:
    pair = [start_worker(), start_worker()]
    ray.get([worker.ping.remote() for worker in pair])
    channel = channel_to(*pair, deadline_s=2.0)  # in which the other one has to answer
    ask_until(channel, drafted(1, 2), 1, 2)
    stopped = pid_of(pair[0])
    os.kill(stopped, signal.SIGSTOP)
    try:
        first = ask(channel, 1, 2)
        assert len(first.unknown) == 1, "at once, so that the next round opens it elsewhere"
        assert drafted(1, 2)(ask(channel, 1, 2))
    finally:
        os.kill(stopped, signal.SIGCONT)
    end = time.monotonic() + PATIENCE_S
    for seq_id in range(3, 1000):
        ask(channel, 1, 2, seq_id)
        if busy(pair[0]):
            break
        assert time.monotonic() < end
    assert busy(pair[0]) == 1, "it forgot what moved, and takes what is new"


def test_sequences_leave_a_worker_that_leaves_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.replicas.leases.RENEW_S", 0.05)
    staying, leaving = start_worker(), start_worker()
    ray.get([worker.ping.remote() for worker in (staying, leaving)])
    pool = [leased(leaving)]
    channel = channel_to(lease=lambda: pool)
    ask_until(channel, drafted(1, 2), 1, 2)
    pool[:] = [leased(staying)]
    end = time.monotonic() + PATIENCE_S
    while busy(staying) < 2:
        assert time.monotonic() < end
        ask(channel, 1, 2)
    assert busy(leaving) == 0
    assert drafted(1, 2)(ask(channel, 1, 2))


def test_two_rounds_under_way_are_collected_in_order(worker: Worker) -> None:
    channel = channel_to(worker)
    ask_until(channel, drafted(1, 2), 1, 2)
    for seq_id in (1, 2):
        channel.submit(opens(seq_id), propose(seq_id))
    assert drafted(1)(channel.collect())
    os.kill(pid_of(worker), signal.SIGKILL)
    channel.submit(opens(1), propose(1))
    rest = [channel.collect(), channel.collect()]
    assert rest[1] == Proposal((), (key(1),), 0.0)
    assert drafted(2)(rest[0]) or rest[0].unknown == (key(2),), "it may have died before it answered"


def test_leases_are_renewed_with_what_they_are_used_for(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.replicas.leases.RENEW_S", 0.05)
    told: list[Mapping[str, int]] = []

    def lease(sequences: Mapping[str, int]) -> list[Leased]:
        told.append(sequences)
        return [leased(worker)]

    channel = PoolChannel(lease, PATIENCE_S, FeatureWire(WireMetrics("test")))
    ask_until(channel, lambda proposal: {leased(worker).name: 2} in told, 1, 2)


# ---- features ----


class Echo(DrafterWorker):
    """Says what features it was fed."""

    def submit(self, opens: Sequence[Open], propose: Propose, features: Any = None) -> Proposal:
        whole = propose if features is None else joined_again(propose, features)
        trees = [
            DraftTree.build(
                e.key.seq_id, e.base_len, [int(v) for v in e.features[:, 0]], [-1] * 8, [-1.0] * 8
            )
            for e in whole.extends
            if e.features is not None
        ]
        return Proposal(tuple(trees), (), float(features is not None))


def test_large_features_travel_beside_the_message_and_small_ones_in_it() -> None:
    """Of several sequences as one array; each gets its own rows, to the bit."""
    metrics = WireMetrics("test")
    worker = leased(start_worker(Echo))
    channel = PoolChannel(lambda _: [worker], PATIENCE_S, FeatureWire(metrics))
    for width, large in ((8, False), (LARGE // 8, True)):
        rows = {
            i: np.full((8, width), i, np.float16) + np.arange(8, dtype=np.float16)[:, None] for i in (1, 2)
        }
        asked = propose(1, 2)
        extends = tuple(replace(e, features=rows[e.key.seq_id]) for e in asked.extends)
        end = time.monotonic() + PATIENCE_S
        while True:
            channel.submit(opens(1, 2), replace(asked, extends=extends))
            proposal = channel.collect()
            if len(proposal.trees) == 2:
                break
            assert time.monotonic() < end
        assert {t.seq_id: sorted(t.token_ids) for t in proposal.trees} == {
            i: list(range(i, i + 8)) for i in (1, 2)
        }
        assert bool(proposal.compute_s) == large
    assert metrics.bytes.keys() == {"inline", "object_store"}
    assert metrics.bytes["object_store"] % (2 * 8 * LARGE // 8 * 2) == 0
    assert metrics.tokens % 16 == 0


def test_a_closed_sequence_is_unknown(worker: Worker) -> None:
    channel = channel_to(worker)
    ask_until(channel, drafted(1, 2), 1, 2)
    channel.close(Close((key(1),)))
    channel.submit(opens(2), propose(1, 2))
    proposal = channel.collect()
    assert proposal.unknown == (key(1),)
    assert drafted(2)(proposal)


def test_the_worker_forgets_closed_sequences(worker: Worker) -> None:
    ray.get(worker.submit.remote(opens(1), propose(1)))
    ray.get(worker.close.remote(Close((key(1),))))
    assert ray.get(worker.submit.remote([], propose(1))).unknown == (key(1),)
