"""The step loop's channel to drafter workers, with real worker processes that die and hang."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import ray
from ray.actor import ActorHandle

from serving.config import ServeConfig
from serving.drafting.messages import Close, Extend, Open, Proposal, Propose, SeqKey
from serving.replicas.drafter_worker import DrafterWorker
from serving.replicas.pool_channel import PoolChannel
from serving.spec.accept import walk
from serving.spec.calibrator import Calibrator
from serving.spec.tree import DraftTree

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 0.25
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
    end = time.monotonic() + 30
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
    channel = PoolChannel(lambda: [worker], DEADLINE_S)
    proposal = ask_until(channel, drafted(7), 7)
    assert proposal.unknown == ()
    assert proposal.compute_s > 0
    (tree,) = proposal.trees
    assert tree.base_len == len(TEXT)
    assert tree.token_ids[0] == 4


def test_without_a_worker_everything_is_unknown_at_once() -> None:
    channel = PoolChannel(lambda: [], DEADLINE_S)
    started = time.monotonic()
    assert ask(channel, 1, 2) == Proposal((), (key(1), key(2)), 0.0)
    assert time.monotonic() - started < DEADLINE_S / 2


def test_a_lease_that_raises_harms_nobody(worker: Worker) -> None:
    answers = iter([RuntimeError("the pool restarts"), [worker]])

    def lease() -> list[Worker]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    ask_until(PoolChannel(lease, DEADLINE_S), drafted(1), 1)


def test_a_killed_worker_is_replaced(worker: Worker) -> None:
    pool = [worker]
    channel = PoolChannel(lambda: pool, DEADLINE_S)
    ask_until(channel, drafted(1, 2), 1, 2)
    os.kill(pid_of(worker), signal.SIGKILL)
    assert set(ask_until(channel, lambda p: not p.trees, 1, 2).unknown) == {key(1), key(2)}
    pool[:] = [worker, start_worker()]  # the pool may hand out the dead one for a while
    ask_until(channel, drafted(1, 2), 1, 2)


def test_a_new_worker_drafts_with_what_the_verifier_has_learned(worker: Worker) -> None:
    """The second is never told of the first's outcomes: the maps come with every message."""
    calibrator = Calibrator(refit_every=1)
    pool = [worker]
    channel = PoolChannel(lambda: pool, DEADLINE_S)

    def ask_calibrated() -> DraftTree:
        asked = replace(propose(1), calibration=calibrator.maps)
        end = time.monotonic() + 30
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
    channel = PoolChannel(lambda: [worker], DEADLINE_S)
    ask_until(channel, drafted(1), 1)
    pid = pid_of(worker)
    os.kill(pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        assert ask(channel, 1) == Proposal((), (), 0.0)
        assert DEADLINE_S * 0.9 < time.monotonic() - started < DEADLINE_S * 3
        started = time.monotonic()
        assert ask(channel, 1) == Proposal((), (key(1),), 0.0)
        assert time.monotonic() - started < DEADLINE_S / 2
    finally:
        os.kill(pid, signal.SIGCONT)
    ask_until(channel, drafted(1), 1)


def test_a_drafter_that_always_takes_long_is_waited_for() -> None:
    class Slow(DrafterWorker):
        def submit(self, opens: Sequence[Open], propose: Propose) -> Proposal:
            time.sleep(2 * DEADLINE_S)
            return replace(super().submit(opens, propose), compute_s=2 * DEADLINE_S)

    worker = start_worker(Slow)
    channel = PoolChannel(lambda: [worker], DEADLINE_S)
    ask_until(channel, drafted(1), 1)


def test_sequences_are_spread_over_workers_and_stay_there() -> None:
    pair = [start_worker(), start_worker()]
    ray.get([worker.ping.remote() for worker in pair])
    channel = PoolChannel(lambda: pair, DEADLINE_S)
    ask_until(channel, drafted(1, 2, 3, 4), 1, 2, 3, 4)
    os.kill(pid_of(pair[0]), signal.SIGKILL)
    proposal = ask(channel, 1, 2, 3, 4)
    assert len(proposal.unknown) == 2
    assert {k.seq_id for k in proposal.unknown} | {t.seq_id for t in proposal.trees} == {1, 2, 3, 4}


def test_a_closed_sequence_is_unknown(worker: Worker) -> None:
    channel = PoolChannel(lambda: [worker], DEADLINE_S)
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
