"""The step loop's way to the drafter pool: one actor call per worker and step, none fails a step."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError

from serving.drafting.messages import Close, Open, Proposal, Propose, SeqKey
from serving.replicas.drafter_worker import DrafterWorker
from serving.replicas.leases import LeaseKeeper

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Worker:
    """A leased drafter worker, the sequences it drafts for, and what it owes us."""

    handle: ActorHandle[DrafterWorker]
    keys: set[SeqKey] = field(default_factory=set)
    answer: ray.ObjectRef[Proposal] | None = None
    sent_at: float = 0.0
    round_trip_s: float = 0.0

    def send(self, opens: Sequence[Open], propose: Propose) -> None:
        self.sent_at = time.monotonic()
        self.answer = self.handle.submit.remote(opens, propose)

    def timeout_s(self, least_s: float) -> float:
        """Time left to wait for the answer: until twice the usual round trip after sending, or `least_s`."""
        return max(0.0, self.sent_at + max(least_s, 2 * self.round_trip_s) - time.monotonic())

    def learn(self, round_trip_s: float) -> None:
        self.round_trip_s += 0.1 * (round_trip_s - self.round_trip_s)


class PoolChannel:
    """A DraftChannel to the workers of the drafter pool; used by one thread.

    A sequence stays with one worker, the least loaded when it was opened. A worker whose answer is late gets
    no more work until it has answered: meanwhile its sequences are reported unknown, because what it missed
    has to be sent again. A worker that fails is dropped and its sequences opened elsewhere. `lease` returns
    the pool's workers and may block; it is called in another thread.
    """

    def __init__(self, lease: Callable[[], Iterable[ActorHandle[DrafterWorker]]], deadline_s: float) -> None:
        self._keeper = LeaseKeeper(lease)
        self._deadline_s = deadline_s
        self._workers: list[_Worker] = []
        self._owners: dict[SeqKey, _Worker] = {}
        self._asked: list[_Worker] = []
        self._unknown: list[SeqKey] = []

    def submit(self, opens: Sequence[Open], propose: Propose) -> None:
        """Send every worker its part. Sequences without a worker are unknown in the next `collect`."""
        self._adopt()
        self._assign(opens)
        self._asked = [worker for worker in self._workers if self._has_answered(worker)]
        self._unknown = [e.key for e in propose.extends if self._owners.get(e.key) not in self._asked]
        for worker in list(self._asked):
            part = _part(propose, worker.keys)
            if part.extends:
                worker.send([message for message in opens if message.key in worker.keys], part)
            else:
                self._asked.remove(worker)

    def collect(self) -> Proposal:
        """Trees that are there by the deadline. The time spent drafting is that of the slowest worker."""
        proposals = [p for worker in list(self._asked) if (p := self._answer(worker)) is not None]
        self._asked = []
        unknown, self._unknown = self._unknown, []
        return Proposal(
            tuple(tree for p in proposals for tree in p.trees),
            tuple(unknown) + tuple(key for p in proposals for key in p.unknown),
            max((p.compute_s for p in proposals), default=0.0),
        )

    def close(self, message: Close) -> None:
        for worker in self._workers:
            keys = tuple(key for key in message.keys if key in worker.keys)
            if keys:
                worker.handle.close.remote(Close(keys))
                worker.keys.difference_update(keys)
        for key in message.keys:
            self._owners.pop(key, None)

    def _adopt(self) -> None:
        known = {worker.handle for worker in self._workers}
        self._workers += [_Worker(handle) for handle in self._keeper.poll() if handle not in known]

    def _assign(self, opens: Sequence[Open]) -> None:
        for message in opens:
            if self._workers and message.key not in self._owners:
                owner = min(self._workers, key=lambda worker: len(worker.keys))
                owner.keys.add(message.key)
                self._owners[message.key] = owner

    def _has_answered(self, worker: _Worker) -> bool:
        """Whether nothing is outstanding. What came too late is dropped; the next deadline allows for it."""
        if worker.answer is not None and ray.wait([worker.answer], timeout=0)[0]:
            late = self._fetch(worker)
            if late is not None:
                worker.learn(late.compute_s)
        return worker.answer is None and worker in self._workers

    def _answer(self, worker: _Worker) -> Proposal | None:
        """The worker's proposal, or None when it is late or has failed."""
        assert worker.answer is not None
        if not ray.wait([worker.answer], timeout=0)[0]:
            if not ray.wait([worker.answer], timeout=worker.timeout_s(self._deadline_s))[0]:
                return None
            worker.learn(time.monotonic() - worker.sent_at)
        return self._fetch(worker)

    def _fetch(self, worker: _Worker) -> Proposal | None:
        answer, worker.answer = worker.answer, None
        assert answer is not None
        try:
            return ray.get(answer)
        except RayError as error:
            self._drop(worker, error)
            return None

    def _drop(self, worker: _Worker, error: RayError) -> None:
        reason = str(error).partition("\n")[0]
        logger.warning("lost a drafter of %d sequences, they decode plainly: %s", len(worker.keys), reason)
        self._workers.remove(worker)
        self._unknown += worker.keys
        for key in worker.keys:
            del self._owners[key]
        self._keeper.report_lost()


def _part(propose: Propose, keys: set[SeqKey]) -> Propose:
    """What `propose` asks for these sequences; itself when it asks for no others."""
    mine = [i for i, extend in enumerate(propose.extends) if extend.key in keys]
    if len(mine) == len(propose.extends):
        return propose
    return Propose(
        tuple(propose.extends[i] for i in mine),
        tuple(propose.max_nodes[i] for i in mine),
        tuple(propose.max_depth[i] for i in mine),
        propose.price,
        propose.calibration,
    )
