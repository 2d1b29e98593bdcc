"""The choice of m under arrivals that do not wait, in a simulated engine: its latencies have no noise."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from chains import chain

from serving.spec.controller import (
    NO_DRAFTS,
    AutoController,
    Controller,
    DraftPlan,
    StepOutcome,
)
from serving.spec.cost import ForwardProfile, StepCost, StepLoad
from serving.spec.schedule import ScheduledController
from serving.spec.tree import DraftTree

REQUESTS, PROMPT, ANSWER = 32, 90, 60
UNCACHED = 8  # rows of a prompt that have to be computed
MAX_NODES, DEPTH = 32, 8
# Two cores that have the default model, measured: few rows are nearly free, and many are not.
TWO_CORES = ForwardProfile(
    (1, 4, 8, 12, 24, 36, 72),
    (0.0125, 0.0125, 0.0155, 0.0174, 0.0265, 0.0365, 0.0660),
    (0.0120, 0.0124, 0.0149, 0.0163, 0.0243, 0.0320, 0.0571),
    kv_token_s=2.0e-6,
    kv_row_s=4.7e-7,
)
BESIDE_S, DRAFT_S, TOLD_S = 0.0007, 0.005, 4e-5  # of a step; of one tree; for each token that was missed


@dataclass
class Request:
    """due: when it arrives. confidence: how likely a draft token is right, which drafters know."""

    due: float
    confidence: float
    left: int = ANSWER
    told: int = 0
    prefilled: bool = False

    @property
    def length(self) -> int:
        return PROMPT + ANSWER - self.left


@dataclass
class Simulated:
    """An engine in virtual time."""

    controller: Controller
    rng: np.random.Generator
    now: float = 0.0
    plan: DraftPlan = NO_DRAFTS
    drafting: list[Request] = field(default_factory=list)
    fed: int = 0

    def latencies(self, requests: list[Request]) -> list[float]:
        waiting, running, found = list(requests), [], []
        while waiting or running:
            if not running:
                self.now = max(self.now, waiting[0].due)
            while waiting and waiting[0].due <= self.now:
                running.append(waiting.pop(0))
            self._step(running)
            found += [self.now - each.due for each in running if each.left <= 0]
            running = [each for each in running if each.left > 0]
            self._ask([each for each in running if each.prefilled])
        return found

    def _step(self, running: list[Request]) -> None:
        decoding = [each for each in running if each.prefilled]
        prompts = [each for each in running if not each.prefilled]
        load = StepLoad(len(decoding), UNCACHED * len(prompts), sum(each.length for each in decoding))
        trees = [self._tree(each) for each in decoding]
        sizes = self.controller.choose(trees, load, self.plan).sizes
        verified = load.sequences + sum(sizes)
        forward_s = float(TWO_CORES.seconds(load, verified))
        asked = len(self.drafting)
        draft_s = (DRAFT_S * (1 + (asked - 1) / 12) + TOLD_S * self.fed) if asked else 0.0
        elapsed_s = forward_s + BESIDE_S + draft_s
        committed = [1 + self._accepted(each, size) for each, size in zip(decoding, sizes, strict=True)]
        for each, count in zip(decoding, committed, strict=True):
            each.left -= count
        for each in prompts:
            each.prefilled = True
            each.left -= 1
        self.now += elapsed_s
        tokens = sum(committed) + len(prompts)
        self.controller.observe(
            StepOutcome(load, verified, tokens, elapsed_s, forward_s, BESIDE_S, draft_s, asked, self.fed)
        )

    def _ask(self, decoding: list[Request]) -> None:
        missed = {id(each): each.length - each.told for each in decoding}
        lengths = sum(each.length for each in decoding)
        self.plan = self.controller.plan(StepLoad(len(decoding), 0, lengths, missed=tuple(missed.values())))
        self.drafting = sorted(decoding, key=lambda each: missed[id(each)])[: self.plan.sequences]
        self.fed = sum(missed[id(each)] for each in self.drafting)
        for each in self.drafting:
            each.told = each.length

    def _tree(self, request: Request) -> DraftTree:
        nodes = min(self.plan.nodes, DEPTH, request.left - 1) if request in self.drafting else 0
        return chain(request.confidence, max(nodes, 0))

    def _accepted(self, request: Request, size: int) -> int:
        wrong = np.flatnonzero(self.rng.random(size) > request.confidence)
        return int(wrong[0]) if len(wrong) else size


def mean_latency(controller: Controller, rate: float, runs: int = 6) -> float:
    """Seconds, of the same arrivals for every controller."""
    found = []
    for run in range(runs):
        rng = np.random.default_rng(run)
        due = np.cumsum(rng.exponential(1 / rate, REQUESTS))
        confidences = np.clip(rng.beta(4, 4, REQUESTS), 0.05, 0.95).round(2)
        requests = [Request(*each) for each in zip(due.tolist(), confidences.tolist(), strict=True)]
        found += Simulated(controller, rng).latencies(requests)
    return float(np.mean(found))


@pytest.mark.parametrize(("rate", "least"), [(1.0, 1.05), (6.0, 0.99), (12.0, 0.99)])
def test_arrivals_wait_no_longer_than_with_plain_decoding(rate: float, least: float) -> None:
    """And less where there are few. A longer step delays whoever comes meanwhile, which has no price."""
    auto = AutoController(StepCost(TWO_CORES), MAX_NODES, seed=1)
    plain = ScheduledController.fixed(0)
    assert mean_latency(plain, rate) / mean_latency(auto, rate) >= least
