"""A machine and its traffic, to see what a controller makes of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from chains import chain

from serving.spec.controller import AutoController, Choice, DraftPlan, StepOutcome
from serving.spec.cost import ForwardProfile, StepCost, StepLoad

MAX_NODES = 16
# A machine on which 16 rows cost what one does, and every further row its share of the second.
ROOFLINE = ForwardProfile((1, 16, 1024), (0.010, 0.010, 0.640), (0.010, 0.010, 0.640))


@dataclass
class World:
    """A machine and its traffic: draft tokens are right with probability `confidence`."""

    controller: AutoController = field(
        default_factory=lambda: AutoController(StepCost(ROOFLINE), MAX_NODES, seed=1)
    )
    confidence: float = 0.7
    draft_s: float = 0.002
    told_s: float = 0.0  # for each token that the drafter has missed
    lengths: list[int] = field(default_factory=list)  # of each sequence's context
    missed: list[int] = field(default_factory=list)
    drafter_lives: bool = True
    machine: ForwardProfile = ROOFLINE
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    seconds: float = 0.0
    tokens: int = 0
    urgent_tokens: int = 0

    def step(self, sequences: int, prefill: int = 0, urgent: int = 0) -> tuple[DraftPlan, Choice]:
        """urgent: the first so many are of priority 0 and the others of 1; 0: all are alike."""
        priorities = (0,) * urgent + (1,) * (sequences - urgent) if urgent else ()
        self.lengths = (self.lengths + [100] * sequences)[:sequences]
        self.missed = (self.missed + [0] * sequences)[:sequences]
        load = StepLoad(sequences, prefill, sum(self.lengths), priorities=priorities, urgent=urgent)
        plan = self.controller.plan(load._replace(missed=tuple(self.missed)))
        drafted = plan.sequences if plan.nodes and self.drafter_lives else 0
        depth = min(plan.nodes, 8)
        trees = [chain(self.confidence, depth if i < drafted else 0, i) for i in range(sequences)]
        choice = self.controller.choose(trees, load, plan)
        verified = sequences + sum(choice.sizes)
        accepted = [self._accepted(size) for size in choice.sizes]
        committed = sequences + sum(accepted)
        forward_s = float(self.machine.seconds(load, verified)) * float(self.rng.normal(1.0, 0.05))
        fed = sum(self.missed[: plan.sequences])
        draft_s = self.draft_s * (1 + drafted / 16) + self.told_s * fed if plan.sequences else 0.0
        told = [0] * plan.sequences + self.missed[plan.sequences :]
        self.missed = [left + 1 + more for left, more in zip(told, accepted, strict=True)]
        self.lengths = [length + 1 + more for length, more in zip(self.lengths, accepted, strict=True)]
        elapsed = forward_s + draft_s
        self.seconds += elapsed
        self.tokens += committed
        self.urgent_tokens += urgent + sum(accepted[:urgent])
        self.controller.observe(
            StepOutcome(load, verified, committed, elapsed, forward_s, 0.0, draft_s, plan.sequences, fed)
        )
        return plan, choice

    def run(self, sequences: int, steps: int) -> list[float]:
        """m of each step: draft tokens verified per sequence."""
        return [sum(self.step(sequences)[1].sizes) / sequences for _ in range(steps)]

    def rates(self, sequences: int, urgent: int, steps: int = 100) -> tuple[float, float]:
        """Tokens per second of one urgent sequence, and of all together, once m has settled."""
        for _ in range(60):
            self.step(sequences, urgent=urgent)
        self.seconds, self.tokens, self.urgent_tokens = 0.0, 0, 0
        for _ in range(steps):
            self.step(sequences, urgent=urgent)
        return self.urgent_tokens / urgent / self.seconds, self.tokens / self.seconds

    def _accepted(self, size: int) -> int:
        wrong = np.flatnonzero(self.rng.random(size) > self.confidence)
        return int(wrong[0]) if len(wrong) else size
