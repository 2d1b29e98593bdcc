"""What the target computes while trees are drafted, and drafting that starts anew on another drafter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adversary import Oracle
from head_configs import HEADS, VOCAB, config
from runs import Outcome, request, run, take_step
from test_prefix_drafts import Recording
from tiny_models import config_for

from serving.drafting.base import DraftChannel
from serving.drafting.colocated import ColocatedChannel
from serving.drafting.messages import Close, Open, Proposal, Propose
from serving.engine.build import build_engine
from serving.engine.engine import Engine
from serving.replicas.drafters import build_drafter

PROMPTS = [tuple(np.random.default_rng(i).integers(0, 100, 9).tolist()) for i in range(5)]
LONG = tuple(np.random.default_rng(9).integers(0, 100, 70).tolist())


def build(folder: Path, channel: DraftChannel | None, **engine: Any) -> Engine:
    of = config_for(folder, **engine)
    changes = {"num_speculative_tokens": 3, "overlap": "always"}
    speculation = of.speculation.model_copy(update=changes)
    return build_engine(of.model_copy(update={"speculation": speculation}), channel, "test")


class Watched(Oracle):
    """Notes which sequences are asked for and collected, by step."""

    def __init__(self, texts: Sequence[tuple[int, ...]]) -> None:
        super().__init__(texts)
        self.under_way: list[frozenset[int]] = []

    def submit(self, opens: Sequence[Open], propose: Propose) -> None:
        self.under_way.append(frozenset(extend.key.seq_id for extend in propose.extends))
        super().submit(opens, propose)

    def collect(self) -> Proposal:
        self.under_way.pop(0)
        return super().collect()


def watched(folder: Path, *prompts: tuple[int, ...], **engine: Any) -> tuple[Engine, Watched]:
    plain = build_engine(config_for(folder), None, "plain")
    outcomes = run(plain, [request(f"p{i}", prompt, 40) for i, prompt in enumerate(prompts)])
    texts = [prompt + outcomes[f"p{i}"].token_ids for i, prompt in enumerate(prompts)]
    channel = Watched(texts)
    return build(folder, channel, **engine), channel


def test_two_halves_take_turns(llama: Path) -> None:
    """While one is verified, the other's trees are under way, and nobody misses a tree."""
    engine, channel = watched(llama, *PROMPTS)
    outcomes = {f"r{i}": Outcome() for i in range(5)}
    for i, prompt in enumerate(PROMPTS):
        engine.add(request(f"r{i}", prompt, 40))
    take_step(engine, outcomes)  # the prompts
    turns = []
    for _ in range(6):
        under_way = list(channel.under_way)
        assert sorted(map(len, under_way)) == [2, 3]
        take_step(engine, outcomes)
        turns.append(under_way[0])
        assert channel.under_way[0] == under_way[1], "the others' trees were not waited for"
        report = engine.last_report
        assert (report.decoding, report.drafts) == (len(under_way[0]), len(under_way[0]))
    assert turns[::2] == turns[:1] * 3
    assert turns[1::2] == turns[1:2] * 3
    assert not turns[0] & turns[1]


def test_halves_even_out_when_sequences_come_and_go(llama: Path) -> None:
    engine, channel = watched(llama, *PROMPTS)
    outcomes = {f"r{i}": Outcome() for i in range(5)}
    for i, prompt in enumerate(PROMPTS[:4]):
        engine.add(request(f"r{i}", prompt, 40))
    for _ in range(3):
        take_step(engine, outcomes)
    for seq_id in sorted(channel.under_way[0]):  # one half leaves
        engine.abort(f"r{seq_id}")
    engine.add(request("r4", PROMPTS[4], 40))
    for _ in range(6):
        take_step(engine, outcomes)
    assert sorted(map(len, channel.under_way)) == [1, 2]


def test_a_prompt_is_read_while_trees_are_drafted(llama: Path) -> None:
    engine, channel = watched(llama, PROMPTS[0], LONG, max_num_batched_tokens=32)
    outcomes = {name: Outcome() for name in ("r0", "r1")}
    engine.add(request("r0", PROMPTS[0], 40))
    take_step(engine, outcomes)
    engine.add(request("r1", LONG, 4))
    decoding = []
    for _ in range(4):
        take_step(engine, outcomes)
        decoding.append(engine.last_report.decoding)
    # Chunks have every second step to themselves; in the others the trees are verified beside a chunk.
    assert decoding == [0, 1, 0, 1]
    assert engine.last_report.accepted_tokens == 3
    while engine.has_work:
        take_step(engine, outcomes)
    assert outcomes["r0"].token_ids == channel.texts[0][len(PROMPTS[0]) :]


@pytest.mark.parametrize("method", HEADS)
def test_a_new_drafter_draws_the_trees_that_the_old_one_would_have(
    target: Path, drafts: dict[str, dict[str, Any]], method: str
) -> None:
    """Its state is rebuilt from the features in the cache: a re-lease costs a plain step, and then every tree
    is the same, so as much of it is accepted."""
    of = config(target, "float32", {**drafts[method], "num_speculative_tokens": 2, "min_path_value": 0.01})
    calm = Recording(ColocatedChannel(build_drafter(of)))
    moved = Moving(Recording(ColocatedChannel(build_drafter(of))))
    asked = request("r", (token % VOCAB for token in PROMPTS[0]), 90)
    outcomes = [run(build_engine(of, channel, "test"), [asked])["r"] for channel in (calm, moved)]
    assert outcomes[0].token_ids == outcomes[1].token_ids
    assert moved.moves >= 3
    trees = {tree[0]: tree[1:3] for tree in calm.trees}
    compared = [tree for tree in moved.inner.trees[4:] if tree[0] in trees]
    assert len(compared) > 5
    assert all(trees[base_len] == (tokens, parents) for base_len, tokens, parents, _ in compared)


class Moving(DraftChannel):
    """Goes to a new drafter in every fifth round, as if the old one had died."""

    def __init__(self, inner: Recording) -> None:
        self.inner, self.rounds, self.moves = inner, 0, 0

    def submit(self, opens: Sequence[Open], propose: Propose) -> None:
        self.rounds += 1
        self.lost = tuple(e.key for e in propose.extends) if self.rounds % 5 == 0 else ()
        if self.lost:
            self.moves += 1
            self.inner.close(Close(self.lost))
        else:
            self.inner.submit(opens, propose)

    def collect(self) -> Proposal:
        return Proposal((), self.lost, 0.0) if self.lost else self.inner.collect()

    def close(self, message: Close) -> None:
        self.inner.close(message)
