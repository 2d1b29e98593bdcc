"""Whole engines learn what their drafts are worth, whatever becomes of single proposals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from head_configs import VOCAB, config
from runs import request, run

from serving.drafting.base import DraftChannel
from serving.drafting.colocated import ColocatedChannel
from serving.drafting.messages import Close, Open, Proposal, Propose
from serving.engine.build import build_engine
from serving.engine.build_drafter import build_network_drafter
from serving.engine.engine import Engine
from serving.spec.calibration import DEPTHS, ORIGINS, Method, origin_of
from serving.spec.reliability import Reliability
from serving.types import GenerationRequest


def build(target: Path, speculation: dict[str, Any], channel: type[ColocatedChannel]) -> Engine:
    of = config(target, "float32", {"min_path_value": 0.0, **speculation}, kv_cache_memory=2**22)
    return build_engine(of, channel(build_network_drafter(of)), "test")


def questions(seed: int, count: int = 24, **params: Any) -> list[GenerationRequest]:
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(0, VOCAB, 6).tolist() for _ in range(count)]
    return [request(f"r{i}", prompt, 60, seed=i, **params) for i, prompt in enumerate(prompts)]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("method", ["eagle3", "draft_model"])
def test_calibration_falls_by_what_it_has_seen(
    target: Path, drafts: dict[str, dict[str, Any]], method: str, temperature: float
) -> None:
    """A random head knows nothing, and the target as its own draft model is always right when it is greedy:
    neither says so. Coupled drafts of the head are trusted too much here, those of the target too little."""
    spread = {"coupling_spread": 0.4 if method == "eagle3" else 2.0}
    engine = build(target, {**drafts[method], **spread}, ColocatedChannel)
    assert engine.stats.calibration is None
    run(engine, questions(1, 72, temperature=temperature))
    engine.calibrator.fit()
    engine.calibrator.reliability = measured = Reliability(ORIGINS, DEPTHS, math.inf)
    run(engine, questions(2, temperature=temperature))
    engine.calibrator.fit()
    drafted = origin_of(Method.NETWORK, temperature > 0)
    assert measured.weight(drafted) == measured.weight(), "nobody else has drafted"
    error = measured.error(drafted)
    chance = measured.chance(drafted)
    assert error.calibrated - chance < 0.6 * (error.raw - chance)
    assert engine.stats.calibration is not None


class Unreliable(ColocatedChannel):
    """Of three proposals one is lost, and one comes a step late, in place of the next."""

    def __init__(self, *members: Any) -> None:
        super().__init__(*members)
        self.turn, self.late = 0, Proposal((), (), 0.0)

    def collect(self) -> Proposal:
        proposal = super().collect()
        self.turn += 1
        if self.turn % 3 == 0:
            return proposal
        late, self.late = self.late, proposal
        return late if self.turn % 3 == 1 else Proposal((), (), 0.0)


def test_lost_and_late_proposals_teach_nothing(target: Path, drafts: dict[str, dict[str, Any]]) -> None:
    """The target drafts its own next token, which is always right: a tree that was held against another
    place of its text would say otherwise."""
    engine = build(target, {**drafts["draft_model"], "num_speculative_tokens": 1}, Unreliable)
    outcomes = run(engine, questions(3))
    engine.calibrator.fit()
    greedy = origin_of(Method.NETWORK, sampled=False)
    bins = engine.calibrator.reliability.bins(greedy, calibrated=False)
    verified = sum(outcome.stats.draft_tokens for outcome in outcomes.values())
    assert verified > 200
    assert [each.accepted for each in bins] == [pytest.approx(1.0)] * len(bins)
    assert engine.calibrator.maps.curve(greedy)(0.4, 1) > 0.8


class Restarting(DraftChannel):
    """A drafter that loses everything it holds, again and again; keeps what it proposed."""

    def __init__(self, drafter: Any) -> None:
        self.drafter, self.asked, self.proposed = drafter, [], []

    def submit(self, opens: Sequence[Open], propose: Propose) -> None:
        self.asked.append(propose)
        if len(self.asked) % 10 == 0:
            self.drafter.close(Close(tuple(extend.key for extend in propose.extends)))
        for message in opens:
            self.drafter.open(message)
        self.proposed.append(self.drafter.propose(propose))

    def collect(self) -> Proposal:
        return self.proposed[-1]

    def close(self, message: Close) -> None:
        self.drafter.close(message)


def test_every_tree_is_in_the_order_of_the_maps_that_came_with_its_message(
    target: Path, drafts: dict[str, dict[str, Any]]
) -> None:
    """Also the first tree after the drafter forgot everything."""
    of = config(target, "float32", {"min_path_value": 0.0, **drafts["eagle3"]}, kv_cache_memory=2**22)
    channel = Restarting(build_network_drafter(of))
    engine = build_engine(of, channel, "test")
    engine.calibrator.refit_every = 8
    run(engine, questions(4, 12))
    assert sum(len(proposal.unknown) for proposal in channel.proposed) > 10
    versions = [asked.calibration.version for asked in channel.asked]
    assert versions == sorted(versions)
    assert versions[-1] > 1
    for asked, proposal in zip(channel.asked, channel.proposed, strict=True):
        curve = asked.calibration.curve(origin_of(Method.NETWORK, sampled=False))
        for tree in proposal.trees:
            pairs = zip(np.exp(tree.raw).tolist(), tree.depths.tolist(), strict=True)
            expected = np.array([curve(raw, depth) for raw, depth in pairs])
            assert (np.exp(tree.log_confidence) <= expected + 1e-4).all()  # less where siblings leave less
            assert (np.diff(tree.log_path_values) <= 0).all()
