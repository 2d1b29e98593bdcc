"""A drafter pool on a Ray of this machine, and a channel to it that says where its time goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

import ray
from ray import serve

from serving.app import drafters
from serving.config import ServeConfig
from serving.drafting.base import DraftChannel
from serving.drafting.messages import Close, Open, Proposal, Propose
from serving.metrics import WireMetrics
from serving.replicas.feature_wire import FeatureWire
from serving.replicas.leases import Leased, by_object_store, lease_from
from serving.replicas.pool_channel import PoolChannel


@dataclass(slots=True)
class Spent:
    """Seconds of the step loop's thread in the channel. submit: packing messages and calling Ray."""

    submit: float = 0.0
    collect: float = 0.0


class TimedChannel(DraftChannel):
    """A PoolChannel with a clock. lease_s: what renewing the lease takes, beside the step loop."""

    def __init__(self, inner: PoolChannel, sent: WireMetrics) -> None:
        self._inner, self.sent = inner, sent
        self.spent = Spent()

    def submit(self, opens: Sequence[Open], propose: Propose) -> None:
        started = perf_counter()
        self._inner.submit(opens, propose)
        self.spent.submit += perf_counter() - started

    def collect(self) -> Proposal:
        started = perf_counter()
        proposal = self._inner.collect()
        self.spent.collect += perf_counter() - started
        return proposal

    def close(self, message: Close) -> None:
        self._inner.close(message)


class Pool:
    """Drafter replicas, and channels to them as a verifier has one."""

    def __init__(self, config: ServeConfig) -> None:
        self._config = config
        application = drafters(config)
        assert application is not None
        self._handle = serve.run(application, name="pool", route_prefix=None)

    def channel(self, name: str) -> TimedChannel:
        sent = WireMetrics(name)
        lease = lease_from(self._handle, name, by_object_store)
        channel = PoolChannel(lease, self._config.speculation.deadline_s, FeatureWire(sent))
        return TimedChannel(channel, sent)

    def lease_s(self, times: int = 20) -> float:
        """What a renewal takes, at the median. It is made every few seconds in a thread beside the steps."""
        lease, taken = lease_from(self._handle, "clock", by_object_store), []
        for _ in range(times):
            started = perf_counter()
            leased: list[Leased] = list(lease({}))
            taken.append(perf_counter() - started)
            assert leased
        return sorted(taken)[times // 2]


@contextmanager
def pool(config: ServeConfig) -> Iterator[Pool]:
    """Ray with as many CPUs as replicas ask for: they share this machine's cores with the engine anyway."""
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        serve.start(proxy_location="Disabled")
        yield Pool(config)
    finally:
        serve.shutdown()  # type: ignore[no-untyped-call]
        ray.shutdown()
