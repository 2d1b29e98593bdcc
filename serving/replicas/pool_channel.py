"""The step loop's way to the drafter pool: one actor call per worker and round, none fails a step."""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import ray
from ray.exceptions import RayActorError, RayError

from serving.drafting.messages import Close, Open, Proposal, Propose, SeqKey
from serving.replicas.feature_wire import Carrier, FeatureWire
from serving.replicas.leases import Leased, LeaseDrafters, LeaseKeeper

logger = logging.getLogger(__name__)

# A drafter on another node is worth going to when it drafts for so many sequences less.
FAR = 4
# A round that feeds a sequence more than this is slow for its prompt's sake, not for its drafter's.
LONG = 32


@dataclass(slots=True, eq=False)
class _Worker:
    """A leased drafter worker, and the sequences it drafts for.

    late: answers that were not waited for any longer; until they are there it gets no more work.
    leaving: the pool does not lease it out any more. gone: it failed.
    round_trip_s: what an answer that had to be waited for usually takes; 0 before the first.
    """

    leased: Leased
    keys: set[SeqKey] = field(default_factory=set)
    late: list[_Sent] = field(default_factory=list)
    leaving: bool = False
    gone: bool = False
    round_trip_s: float = 0.0
    luck: float = field(default_factory=random.random)

    def learn(self, round_trip_s: float) -> None:
        known = self.round_trip_s
        self.round_trip_s = known + 0.1 * (round_trip_s - known) if known else round_trip_s

    @property
    def burden(self) -> float:
        """Sequences that it would make wait, ours and others', and what its distance is worth. Among equals
        every verifier prefers another: their loads are known late."""
        return len(self.keys) + self.leased.load + (0 if self.leased.near else FAR) + self.luck


@dataclass(slots=True, eq=False)
class _Sent:
    """A message under way. carrier, path: of its features. long: it feeds some sequence much."""

    worker: _Worker
    keys: tuple[SeqKey, ...]
    answer: ray.ObjectRef[Proposal]
    carrier: Carrier
    path: str
    long: bool
    at: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class _Round:
    """What one `submit` sent. unknown: sequences that no worker could be asked for."""

    sent: list[_Sent]
    unknown: list[SeqKey]


class PoolChannel:
    """A DraftChannel to the workers of the drafter pool; used by one thread.

    A sequence is drafted for by the worker with the least to do when it is opened, and stays there until that
    worker fails, is late, or leaves the pool. Then it is reported unknown, which makes the step loop open it
    again, elsewhere if there is another worker: what was committed is sent again, from the paged cache.
    A late worker gets no more work until it has answered.
    """

    def __init__(self, lease: LeaseDrafters, deadline_s: float, wire: FeatureWire) -> None:
        """lease: is called in another thread. deadline_s: that every answer may take, whatever is usual."""
        self._keeper = LeaseKeeper(lease)
        self._deadline_s = deadline_s
        self._wire = wire
        self._workers: list[_Worker] = []
        self._owners: dict[SeqKey, _Worker] = {}
        self._rounds: deque[_Round] = deque()

    def submit(self, opens: Sequence[Open], propose: Propose) -> None:
        """Send every worker its part. Sequences without a worker are unknown in the round's `collect`."""
        self._adopt()
        self._look_for_late_answers()
        usable = self._usable()
        self._assign(opens, usable)
        unknown = [e.key for e in propose.extends if self._owners.get(e.key) not in usable]
        round_ = _Round([], unknown)
        for worker in usable:
            self._send(worker, opens, propose, round_)
        self._rounds.append(round_)
        self._keeper.report({worker.leased.name: len(worker.keys) for worker in self._workers})

    def collect(self) -> Proposal:
        """Trees of the oldest round that are there by its deadline. `compute_s` is the slowest worker's."""
        oldest = self._rounds.popleft()
        proposals = [self._answer(sent) for sent in oldest.sent]
        return Proposal(
            tuple(tree for p in proposals for tree in p.trees),
            tuple(oldest.unknown) + tuple(key for p in proposals for key in p.unknown),
            max((p.compute_s for p in proposals), default=0.0),
        )

    def close(self, message: Close) -> None:
        for worker in self._workers:
            self._release(worker, [key for key in message.keys if key in worker.keys])

    def _adopt(self) -> None:
        """Take over what was leased last: new workers, others' load, and who is not there any more."""
        leased = self._keeper.poll()
        if leased is None:
            return
        found = {each.name: each for each in leased}
        for worker in self._workers:
            worker.leaving = worker.leased.name not in found
            worker.leased = found.pop(worker.leased.name, worker.leased)
        self._workers += [_Worker(each) for each in found.values()]
        self._workers = [worker for worker in self._workers if worker.keys or not worker.leaving]

    def _usable(self) -> list[_Worker]:
        """Those that owe nothing; of them those that stay, if there are any."""
        ready = [worker for worker in self._workers if not worker.late]
        return [worker for worker in ready if not worker.leaving] or ready

    def _assign(self, opens: Sequence[Open], usable: list[_Worker]) -> None:
        for message in opens:
            owner = self._owners.get(message.key)
            if owner in usable or not usable:
                continue
            if owner is not None:
                self._release(owner, [message.key])
            chosen = min(usable, key=lambda worker: worker.burden)
            chosen.keys.add(message.key)
            self._owners[message.key] = chosen

    def _release(self, worker: _Worker, keys: list[SeqKey]) -> None:
        if keys:
            worker.leased.handle.close.remote(Close(tuple(keys)))
            worker.keys.difference_update(keys)
        for key in keys:
            del self._owners[key]

    def _send(self, worker: _Worker, opens: Sequence[Open], propose: Propose, round_: _Round) -> None:
        """Send the worker's part of a round, if it has one. What cannot be sent is unknown."""
        part = _part(propose, worker.keys)
        if not part.extends:
            return
        keys = tuple(extend.key for extend in part.extends)
        mine = [message for message in opens if message.key in worker.keys]
        carrier = worker.leased.carrier
        try:
            parcel = self._wire.pack(part, carrier)
            answer: ray.ObjectRef[Proposal] = worker.leased.handle.submit.remote(
                mine, parcel.propose, parcel.features
            )
        except Exception as error:  # the object store is full, or what the experimental transport raises
            logger.warning("nothing can be sent to a drafter of %d sequences: %s", len(keys), error)
            carrier.give_up(carrier.path, error)
            round_.unknown.extend(keys)
            return
        long = any(len(extend.token_ids) > LONG for extend in part.extends)
        round_.sent.append(_Sent(worker, keys, answer, carrier, parcel.path, long))

    def _look_for_late_answers(self) -> None:
        """What has come is dropped: its trees are old. The next deadline allows for the time it took."""
        for worker in list(self._workers):
            while worker.late and _has_come(worker.late[0]):
                answer = self._fetch(worker.late.pop(0))
                if answer is not None:
                    worker.learn(answer.compute_s)

    def _answer(self, sent: _Sent) -> Proposal:
        """What came of a message. Where its worker failed or others may do better, sequences are unknown."""
        worker = sent.worker
        if worker.gone:
            return Proposal((), sent.keys, 0.0)
        if not _has_come(sent):
            if worker.late or not _has_come(sent, self._time_left(sent)):
                worker.late.append(sent)
                return Proposal((), sent.keys if self._usable() else (), 0.0)
            worker.learn(time.monotonic() - sent.at)
        return self._fetch(sent) or Proposal((), sent.keys, 0.0)

    def _time_left(self, sent: _Sent) -> float:
        """An answer may take twice what is usual for its worker, or for the quickest if they differ."""
        usual = sent.worker.round_trip_s
        if not sent.long:
            usual = min((w.round_trip_s for w in self._workers if w.round_trip_s), default=usual)
        return max(0.0, sent.at + max(self._deadline_s, 2 * usual) - time.monotonic())

    def _fetch(self, sent: _Sent) -> Proposal | None:
        try:
            return ray.get(sent.answer)
        except RayError as error:
            alive = not isinstance(error, RayActorError)
            if not (alive and sent.carrier.give_up(sent.path, error)):
                self._drop(sent.worker, error)
            return None

    def _drop(self, worker: _Worker, error: RayError) -> None:
        if worker.gone:
            return
        reason = str(error).partition("\n")[0]
        logger.warning("lost a drafter of %d sequences, they decode plainly: %s", len(worker.keys), reason)
        worker.gone = True
        if worker in self._workers:  # one that was leaving may be forgotten before its last answer
            self._workers.remove(worker)
        for key in worker.keys:
            del self._owners[key]
        self._keeper.report_lost()


def _has_come(sent: _Sent, timeout_s: float = 0.0) -> bool:
    return bool(ray.wait([sent.answer], timeout=timeout_s)[0])


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
