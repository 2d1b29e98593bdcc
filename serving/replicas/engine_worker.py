"""Rank 0 of a verifier: the process that holds the model and runs the step loop."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import ray
from ray.serve.handle import DeploymentHandle

from serving.config import DraftBudget, ServeConfig
from serving.drafting.base import DraftChannel
from serving.drafting.colocated import ColocatedChannel
from serving.logs import configure_logging
from serving.metrics import WireMetrics, start_exporter
from serving.replicas.drafters import build_drafter
from serving.replicas.feature_wire import FeatureWire
from serving.replicas.leases import Carriers, by_object_store, lease_from
from serving.replicas.pool_channel import PoolChannel
from serving.replicas.step_loop import StepLoop
from serving.types import GenerationRequest, ModelCard, TokenDelta

if TYPE_CHECKING:
    from serving.engine.engine import Engine
    from serving.models.ranks import Meeting, Ranks

logger = logging.getLogger(__name__)


class EngineWorker:
    """Hands requests to the step loop and its deltas out; the loop has a thread of its own.

    `drafters` is the pool's handle, or None where drafts are made in this process or not at all.
    """

    def __init__(self, config: ServeConfig, drafters: DeploymentHandle[Any] | None) -> None:
        configure_logging(config.log_level)
        self._config = config
        self._drafters = drafters
        self._outbox: list[TokenDelta] = []
        self._news = asyncio.Event()
        self._dead = False
        self._loop = StepLoop(self._build, self._publish, self._died)

    async def meet(self) -> Meeting:
        """Where the other ranks of a tensor-parallel verifier find this one when all of them start."""
        from serving.models.ranks import Host

        address = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        self._host = await asyncio.to_thread(Host, address, self._config.engine.tensor_parallel_size)
        return self._host.meeting

    async def start(self, meeting: Meeting | None = None) -> ModelCard:
        """Load the model and start stepping. Raises what loading raised. meeting: what `meet` returned."""
        self._meeting = meeting
        self._events = asyncio.get_running_loop()
        start_exporter(self._config.replicas.verifier_metrics_port)
        return await asyncio.wrap_future(self._loop.start())

    async def add(self, request: GenerationRequest) -> None:
        self._loop.add(request)

    async def abort(self, request_id: str) -> None:
        self._loop.abort(request_id)

    async def choose_m(self, budget: DraftBudget) -> None:
        """How the draft tokens of a step are chosen from now on."""
        await asyncio.wrap_future(self._loop.ask(lambda engine: engine.choose_m(budget)))

    async def take(self) -> list[TokenDelta]:
        """All deltas since the last call; waits until there are some. One caller at a time."""
        await self._news.wait()
        if self._dead and not self._outbox:
            ray.actor.exit_actor()  # type: ignore[no-untyped-call]
        deltas, self._outbox = self._outbox, []
        if not self._dead:
            self._news.clear()
        return deltas

    async def step_age_s(self) -> float:
        """Seconds the current step has run for; answers while a step runs."""
        return self._loop.step_age_s

    async def stats(self) -> dict[str, Any]:
        """The engine's counters as plain numbers: its classes would bring torch into the caller's process.

        `unfinished`: requests that run or wait; `kv_usage`: in 0..1; `pid`: of the process that holds the
        model.
        """
        return await asyncio.wrap_future(self._loop.ask(_stats))

    async def load(self) -> dict[str, float]:
        """What the number of verifiers follows, since the last call."""
        return await asyncio.wrap_future(self._loop.load())

    async def check_integrity(self) -> None:
        """Check the engine's bookkeeping between two steps. Raises AssertionError."""
        await asyncio.wrap_future(self._loop.ask(lambda engine: engine.check_integrity()))

    def _build(self) -> Engine:
        """In the step loop's thread: the number of torch's threads belongs to the thread that sets it."""
        from serving.engine.build import build_engine

        ranks = self._join(self._meeting) if self._meeting else None
        incarnation = uuid.uuid4().hex
        return build_engine(self._config, self._channel(incarnation), incarnation, ranks)

    def _join(self, meeting: Meeting) -> Ranks:
        from serving.models.ranks import Ranks
        from serving.models.sharding import Shard

        engine = self._config.engine
        return Ranks(meeting, Shard(0, engine.tensor_parallel_size), ordered=engine.deterministic)

    def _channel(self, incarnation: str) -> DraftChannel | None:
        speculation, pool = self._config.speculation, self._drafters
        if speculation.method == "off":
            return None
        if pool is None:
            return ColocatedChannel(build_drafter(self._config))
        wire = FeatureWire(WireMetrics(self._config.model_name))
        lease = lease_from(pool, incarnation, self._carriers())
        return PoolChannel(lease, speculation.deadline_s, wire)

    def _carriers(self) -> Carriers:
        if not self._config.speculation.direct:
            return by_object_store
        from serving.replicas.direct_transport import DirectTransport

        return DirectTransport().carriers

    def _publish(self, deltas: list[TokenDelta]) -> None:
        self._events.call_soon_threadsafe(self._deliver, deltas)

    def _deliver(self, deltas: list[TokenDelta]) -> None:
        self._outbox.extend(deltas)
        self._news.set()

    def _died(self) -> None:
        self._events.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        """The last deltas are taken first, then `take` ends the process, which restarts the replica."""
        self._dead = True
        self._news.set()


def _stats(engine: Engine) -> dict[str, Any]:
    scheduler = engine.scheduler
    unfinished = scheduler.num_running + scheduler.num_waiting
    return asdict(engine.stats) | {
        "unfinished": unfinished,
        "kv_usage": scheduler.blocks.usage,
        "pid": os.getpid(),
    }
