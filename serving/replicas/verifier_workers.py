"""The processes behind a verifier's front: rank 0 with the engine, and the ranks that share its model."""

from __future__ import annotations

import asyncio
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.serve.handle import DeploymentHandle

from serving.config import ServeConfig
from serving.replicas.engine_worker import EngineWorker
from serving.replicas.rank_worker import RankWorker
from serving.replicas.workers import compute_environment, start_worker, started, verifier_bundle
from serving.types import ModelCard

# A step takes milliseconds; one that runs for this long hangs in a kernel or waits for a lost rank.
STEP_WATCHDOG_S = 60.0
# Workers answer beside their work: only a process that is stuck as a whole takes this long.
ANSWER_TIMEOUT_S = 20.0


class VerifierWorkers:
    """They live and die together: without one of them the others are of no use."""

    def __init__(self, config: ServeConfig, drafters: DeploymentHandle[Any] | None) -> None:
        bundle, environment = verifier_bundle(config), compute_environment(config)
        self.first: ActorHandle[EngineWorker] = start_worker(
            EngineWorker,
            config,
            drafters,
            bundle=bundle,
            environment=environment,
            direct=config.speculation.direct,
        )
        self._others: list[ActorHandle[RankWorker]] = [
            start_worker(RankWorker, config, rank, bundle=bundle, environment=environment, place=1 + rank)
            for rank in range(1, config.engine.tensor_parallel_size)
        ]
        self.pids: list[int] = []

    async def start(self) -> ModelCard:
        """Load the model, on all ranks at once. Raises what loading raised on any of them."""
        card: ModelCard
        if not self._others:
            card = await started(self.first)
            return card
        # A reference, which the ranks alone resolve: the module of what is behind it would bring torch here.
        meeting: ray.ObjectRef[Any] = self.first.meet.remote()
        starts = (started(worker, meeting) for worker in (self.first, *self._others))
        card, *self.pids = await asyncio.gather(*starts)
        return card

    async def watch(self) -> None:
        """Raises ActorDiedError as soon as a rank but the first has ended."""
        await asyncio.gather(*(other.end.remote() for other in self._others))

    async def stuck(self) -> str | None:
        """What is wrong with workers that cannot be waited for. Raises ActorDiedError when one is gone."""
        pings = (other.ping.remote() for other in self._others)
        answers: asyncio.Future[list[Any]] = asyncio.gather(self.first.step_age_s.remote(), *pings)
        try:
            age, *_ = await asyncio.wait_for(answers, ANSWER_TIMEOUT_S)
        except TimeoutError:
            return f"a process of the engine has not answered for {ANSWER_TIMEOUT_S:.0f} s"
        return f"a step has run for {age:.0f} s" if age > STEP_WATCHDOG_S else None

    def kill(self) -> None:
        workers: list[ActorHandle[Any]] = [self.first, *self._others]
        for worker in workers:
            ray.kill(worker)
