"""Finding drafter workers without making a step wait: a thread asks the pool, the step loop looks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError
from ray.serve.handle import DeploymentHandle

from serving.replicas.drafter_worker import DrafterWorker
from serving.replicas.feature_wire import OBJECT_STORE, Carrier
from serving.replicas.lease_book import RENEW_S, Lease
from serving.replicas.workers import named_worker

logger = logging.getLogger(__name__)

# A lost drafter is replaced as soon as the pool has another.
RETRY_S = 0.5
ANSWER_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Leased:
    """A drafter worker that this verifier may use. load: sequences that other verifiers draft with it, as of
    the last renewal. near: on this verifier's node. carrier: of large features."""

    name: str
    handle: ActorHandle[DrafterWorker]
    load: int = 0
    near: bool = True
    carrier: Carrier = OBJECT_STORE


LeaseDrafters = Callable[[Mapping[str, int]], Iterable[Leased]]
"""(sequences drafted for, by worker) -> the pool's workers. May block, and raise."""

Carriers = Callable[[Sequence[ActorHandle[DrafterWorker]]], Sequence[Carrier]]
"""(all workers that are leased now) -> a carrier to each. May block."""


def by_object_store(workers: Sequence[ActorHandle[DrafterWorker]]) -> Sequence[Carrier]:
    return [OBJECT_STORE] * len(workers)


def lease_from(pool: DeploymentHandle[Any], holder: str, carriers: Carriers) -> LeaseDrafters:
    """Leases from all drafter replicas that answer, in the name of `holder`."""
    here = ray.get_runtime_context().get_node_id()

    def lease(sequences: Mapping[str, int]) -> list[Leased]:
        asked = pool.broadcast("lease", holder, sequences)
        answers = asked.results(timeout_s=ANSWER_TIMEOUT_S, return_exceptions=True)
        leases = [answer for answer in answers if isinstance(answer, Lease)]
        found = [(lease, worker) for lease in leases if (worker := _found(lease)) is not None]
        ways = carriers([worker for _, worker in found])
        return [
            Leased(lease.worker, worker, lease.load, lease.node == here, way)
            for (lease, worker), way in zip(found, ways, strict=True)
        ]

    return lease


class LeaseKeeper:
    """Keeps an up-to-date list of live drafter workers in a thread of its own, and renews their leases.

    A worker that does not answer a ping is left out: a replica may lease out one that has just died.
    """

    def __init__(self, lease: LeaseDrafters) -> None:
        self._lease = lease
        self._lost = threading.Event()
        self._found: SimpleQueue[list[Leased]] = SimpleQueue()
        self._sequences: Mapping[str, int] = {}
        threading.Thread(target=self._run, name="drafter-leases", daemon=True).start()

    def poll(self) -> list[Leased] | None:
        """The workers, if they were looked for since the last call. Never blocks."""
        found = None
        with suppress(Empty):
            while True:
                found = self._found.get_nowait()
        return found

    def report(self, sequences: Mapping[str, int]) -> None:
        """What the next renewal tells the pool: for how many sequences each worker drafts, by name."""
        self._sequences = sequences

    def report_lost(self) -> None:
        """Look for workers now instead of at the next renewal."""
        self._lost.set()

    def _run(self) -> None:
        while ray.is_initialized():  # a call after Ray's end would start another one
            self._lost.clear()
            alive = self._alive()
            if alive:
                self._found.put(alive)
            self._lost.wait(RENEW_S if alive else RETRY_S)

    def _alive(self) -> list[Leased]:
        try:
            return [leased for leased in self._lease(self._sequences) if _answers(leased.handle)]
        except Exception as error:  # whatever Serve raises while it restarts: the next round asks again
            logger.warning("no drafter could be leased: %s", error)
            return []


def _found(lease: Lease) -> ActorHandle[DrafterWorker] | None:
    try:
        return named_worker(lease.worker)
    except ValueError:  # it has died since
        return None


def _answers(worker: ActorHandle[DrafterWorker]) -> bool:
    try:
        ray.get(worker.ping.remote(), timeout=ANSWER_TIMEOUT_S)
    except RayError:  # GetTimeoutError too
        return False
    return True
