"""Serve's hook for choosing a replica (RequestRouter), filled with the choice of `placing.py`.

An instance lives in every process that has a handle of the verifiers. Serve asks it for an order, knows how
many requests each replica holds, and lets a replica refuse what is too much: nothing here counts or retries.
Serve pickles this module by value, so each process may have two of it: state that is shared lies elsewhere.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

from serving.metrics import PlacingMetrics
from serving.router.placing import Candidate, Order, placed
from serving.router.waiting import room_of
from serving.types import GenerationRequest

# Full verifiers that are asked whether they still are, each time that a request finds nothing else.
_ASKED = 2


@dataclass(frozen=True)
class RoutingSettings:
    """What app.py binds. prefix_tokens: so many of a prompt decide; load_bound: see `placed`."""

    model_name: str
    prefix_tokens: int
    load_bound: float


class VerifierRouter(RequestRouter):
    """Prefix affinity with bounded load for requests; the least loaded for other calls."""

    def initialize_state(self, **settings: Any) -> None:
        """Serve calls it with the fields of RoutingSettings."""
        self._settings = RoutingSettings(**settings)
        self._metrics = PlacingMetrics(self._settings.model_name)

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        super().update_replicas(replicas)
        self._tell_room()

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        super().on_replica_actor_died(replica_id)
        self._tell_room()

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """One replica in each rank; where all seem full, two that are asked whether they are."""
        request = _request_of(pending_request)
        if pending_request is None or request is None:
            return [candidate_replicas]
        pending_request.routing_context.should_backoff = True  # when none of them takes it
        by_name = {replica.replica_id.unique_id: replica for replica in candidate_replicas}
        order = self._order(candidate_replicas, request)
        if order.names:
            return [[by_name[name]] for name in order.names]
        return [[by_name[name] for name in random.sample(order.fitting, min(_ASKED, len(order.fitting)))]]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        """A replica has taken it."""
        if (request := _request_of(pending_request)) is None:
            return
        if (room := room_of(self.app_name)) is not None:
            room.taken(request.request_id)
        if replicas := list(self.curr_replicas.values()):
            self._metrics.placed(at_home=replica_id.unique_id == self._order(replicas, request).home)

    def _tell_room(self) -> None:
        if (room := room_of(self.app_name)) is not None:
            room.in_service(len(self.curr_replicas))

    def _order(self, replicas: Sequence[RunningReplica], request: GenerationRequest) -> Order:
        return placed(
            [self._candidate(replica) for replica in replicas],
            request,
            tokens=self._settings.prefix_tokens,
            bound=self._settings.load_bound,
        )

    def _candidate(self, replica: RunningReplica) -> Candidate:
        stats = replica.routing_stats
        load = self.replica_queue_len_cache.get(replica.replica_id)  # None where it was sent nothing lately
        return Candidate(
            replica.replica_id.unique_id,
            stats.get("requests", 0) if load is None else load,
            replica.max_ongoing_requests,
            stats.get("kv_usage", 0.0),
            stats.get("fingerprint"),
            stats.get("tokenizer"),
        )


def _request_of(pending: PendingRequest | None) -> GenerationRequest | None:
    match pending.args if pending is not None else ():
        case [GenerationRequest() as request, *_]:
            return request
    return None
