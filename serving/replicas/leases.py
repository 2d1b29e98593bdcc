"""Finding drafter workers without making a step wait: a thread asks the pool, the step loop looks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError
from ray.serve.handle import DeploymentHandle

from serving.replicas.drafter_worker import DrafterWorker
from serving.replicas.workers import named_worker

logger = logging.getLogger(__name__)

# New drafters are noticed this late; a lost one is replaced as soon as the pool has another.
REFRESH_S = 10.0
RETRY_S = 0.5
ANSWER_TIMEOUT_S = 5.0


def leased_workers(pool: DeploymentHandle[Any]) -> list[ActorHandle[DrafterWorker]]:
    """The workers of all drafter replicas that answer now. Blocks; raises when the pool cannot be asked."""
    answers = pool.broadcast("lease").results(timeout_s=ANSWER_TIMEOUT_S, return_exceptions=True)
    workers = (_found(name) for name in answers if isinstance(name, str))
    return [worker for worker in workers if worker is not None]


class LeaseKeeper:
    """Keeps an up-to-date list of live drafter workers in a thread of its own.

    `lease` returns the pool's workers. One that does not answer a ping is left out: a replica may hand out a
    worker that has just died.
    """

    def __init__(self, lease: Callable[[], Iterable[ActorHandle[DrafterWorker]]]) -> None:
        self._lease = lease
        self._lost = threading.Event()
        self._found: list[ActorHandle[DrafterWorker]] = []
        threading.Thread(target=self._run, name="drafter-leases", daemon=True).start()

    def poll(self) -> list[ActorHandle[DrafterWorker]]:
        """Workers found since the last call; may repeat known ones. Never blocks."""
        found, self._found = self._found, []
        return found

    def report_lost(self) -> None:
        """Look for workers now instead of at the next refresh."""
        self._lost.set()

    def _run(self) -> None:
        while ray.is_initialized():  # a call after Ray's end would start another one
            self._lost.clear()
            alive = self._alive()
            if alive:
                self._found = alive
            self._lost.wait(REFRESH_S if alive else RETRY_S)

    def _alive(self) -> list[ActorHandle[DrafterWorker]]:
        try:
            return [worker for worker in self._lease() if _answers(worker)]
        except Exception as error:  # whatever Serve raises while it restarts: the next round asks again
            logger.warning("no drafter could be leased: %s", error)
            return []


def _found(name: str) -> ActorHandle[DrafterWorker] | None:
    try:
        return named_worker(name)
    except ValueError:  # it has died since
        return None


def _answers(worker: ActorHandle[DrafterWorker]) -> bool:
    try:
        ray.get(worker.ping.remote(), timeout=ANSWER_TIMEOUT_S)
    except RayError:  # GetTimeoutError too
        return False
    return True
