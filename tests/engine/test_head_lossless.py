"""Whole engines with heads: no token changes, and the head is fed what the target really computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from head_configs import HEADS, VOCAB, config
from runs import Outcome, request, run
from tiny_heads import DenseHead, TinyHead
from torch import Tensor
from transformers import AutoModelForCausalLM

from serving.config import ServeConfig
from serving.drafting.base import DraftChannel
from serving.drafting.colocated import ColocatedChannel
from serving.drafting.messages import Close, Extend, Open, Proposal, Propose
from serving.engine.build import build_engine
from serving.engine.build_drafter import build_network_drafter
from serving.engine.engine import Engine
from serving.types import GenerationRequest


def mix() -> list[tuple[int, GenerationRequest]]:
    """Requests of every kind with the step that they arrive before: more than the cache can hold at once."""
    rng = np.random.default_rng(0)
    prompts = [rng.integers(0, VOCAB, length).tolist() for length in (1, 2, 17, 5, 16, 3, 40, 60)]
    ways: list[dict[str, Any]] = [
        {},
        {"temperature": 1.0, "seed": 1},
        {"num_speculative_tokens": 0},
        {"temperature": 0.7, "top_p": 0.9, "seed": 2},
        {"num_speculative_tokens": 2, "frequency_penalty": 0.5, "logprobs": 3, "prompt_logprobs": True},
        {"repetition_penalty": 1.3, "logit_bias": ((3, -100.0),), "logprobs": 0},
        {"temperature": 1.0, "seed": 1, "presence_penalty": -0.5, "stop_token_ids": {5, 6}, "min_tokens": 40},
        {"logprobs": 1},
    ]
    each = zip(prompts, ways, strict=True)
    return [(i // 3, request(f"r{i}", prompt, 45, **way)) for i, (prompt, way) in enumerate(each)]


@cache
def plain(target: Path, dtype: str) -> dict[str, Outcome]:
    """Each request alone, without speculation, computed in full."""
    of = config(target, dtype, {"method": "off"}, enable_prefix_caching=False)
    engine = build_engine(of, None, "plain")
    return {each.request_id: run(engine, [each])[each.request_id] for _, each in mix()}


class Recording(DraftChannel):
    """Keeps every feature that was sent, by sequence and position; what is sent again must be the same."""

    def __init__(self, of: ServeConfig) -> None:
        self.inner = ColocatedChannel(build_network_drafter(of))
        self.sent: dict[tuple[int, int], np.ndarray] = {}
        self.unknown = self.submitted = 0

    def submit(self, opens: Sequence[Open], propose: Propose) -> None:
        self.submitted += 1
        for extend in propose.extends:
            rows = () if extend.features is None else extend.features
            for position, row in enumerate(rows, extend.start):
                place = (extend.key.seq_id, position)
                np.testing.assert_allclose(self.sent.setdefault(place, row), row, atol=1e-3)
        self.inner.submit(opens, propose)

    def collect(self) -> Proposal:
        proposal = self.inner.collect()
        self.unknown += len(proposal.unknown)
        return proposal

    def close(self, message: Close) -> None:
        self.inner.close(message)


def start(of: ServeConfig) -> tuple[Engine, Recording]:
    channel = Recording(of)
    return build_engine(of, channel, "test"), channel


@pytest.mark.parametrize(("m", "dtype"), [(1, "float32"), (4, "bfloat16"), (16, "float32")])
@pytest.mark.parametrize("method", [*HEADS, "draft_model"])
def test_no_token_changes(
    target: Path, drafts: dict[str, dict[str, Any]], method: str, m: int, dtype: str
) -> None:
    """In little memory and few rows, so that prompts come in chunks and sequences are preempted; and once
    more, the youngest first: of them something is left in the prefix cache."""
    overlap = "always" if m == 4 else "off"
    speculation = {**drafts[method], "num_speculative_tokens": m, "min_path_value": 0.0, "overlap": overlap}
    engine, channel = start(config(target, dtype, speculation, max_num_batched_tokens=48))
    for arrivals in (mix(), [(i // 3, each) for i, (_, each) in enumerate(reversed(mix()))]):
        outcomes = run(engine, arrivals=arrivals)
        for name, expected in plain(target, dtype).items():
            assert outcomes[name].token_ids == expected.token_ids, name
            assert outcomes[name].logprobs == expected.logprobs, name
            assert outcomes[name].prompt_logprobs == expected.prompt_logprobs, name
    assert channel.unknown == 0
    assert engine.stats.preemptions > 0
    assert engine.stats.prefix_hits > 0
    assert engine.stats.speculation.accepted_tokens > 2 * m
    assert engine.calibrator.maps.version > 0
    assert outcomes["r2"].stats.draft_tokens == 0


MODES: tuple[dict[str, Any], ...] = (
    {"mode": "auto"},
    {"mode": "latency"},
    {"mode": "fixed", "num_speculative_tokens": 3},
    {"mode": "off"},
    {"mode": "schedule", "num_speculative_tokens_per_batch_size": ((1, 2, 6), (3, 4, 1), (5, 64, 0))},
)


@pytest.mark.parametrize(("method", "dtype"), [("eagle3", "bfloat16"), ("eagle", "float32")])
def test_no_token_changes_while_m_does(
    target: Path, drafts: dict[str, dict[str, Any]], method: str, dtype: str
) -> None:
    """The mode changes every seven steps with requests under way, m = 0 included (case S22)."""
    settings = {**drafts[method], "num_speculative_tokens": None, "with_prompt_lookup": True}
    of = config(target, dtype, settings, max_num_batched_tokens=48)
    engine, _ = start(of)
    used: dict[str, list[int]] = {}

    def switch(step: int) -> None:
        mode = MODES[step // 7 % len(MODES)]
        if step % 7 == 0:
            engine.choose_m(of.speculation.model_copy(update=mode))
        elif step % 7 > 1 and engine.last_report.decoding:  # the first step verifies what was asked before
            used.setdefault(mode["mode"], []).append(engine.last_report.draft_tokens)

    for _ in range(2):
        arrivals = [(at, replace(each, priority=i % 2)) for i, (at, each) in enumerate(mix())]
        outcomes = run(engine, arrivals=arrivals, before_step=switch)
        for name, expected in plain(target, dtype).items():
            assert outcomes[name].token_ids == expected.token_ids, name
            assert outcomes[name].logprobs == expected.logprobs, name
    assert not any(used["off"])
    assert any(used["fixed"])
    assert any(used["schedule"])
    assert "latency" in used


def test_plain_mode_never_talks_to_a_drafter(target: Path, drafts: dict[str, dict[str, Any]]) -> None:
    engine, channel = start(config(target, "float32", {**drafts["eagle3"], "mode": "off"}))
    outcomes = run(engine, arrivals=mix())
    for name, expected in plain(target, "float32").items():
        assert outcomes[name].token_ids == expected.token_ids, name
    assert channel.submitted == 0


def test_static_trees_change_no_token(target: Path, drafts: dict[str, dict[str, Any]]) -> None:
    speculation = {**drafts["eagle3"], "tree": "static", "num_speculative_tokens": 25}
    engine, _ = start(config(target, "float32", speculation))
    outcomes = run(engine, arrivals=mix())
    assert {n: o.token_ids for n, o in outcomes.items()} == {
        name: outcome.token_ids for name, outcome in plain(target, "float32").items()
    }
    assert engine.stats.speculation.accepted_tokens > 0


def test_a_drafter_short_of_memory_costs_only_speed(target: Path, drafts: dict[str, dict[str, Any]]) -> None:
    """It holds 128 slots: sequences displace each other, and some get no tree."""
    small = {**drafts["eagle3"], "draft_kv_cache_memory": 2**16, "beam": 4, "min_path_value": 0.0}
    engine, channel = start(config(target, "float32", small, kv_cache_memory=2**20))
    outcomes = run(engine, arrivals=mix())
    for name, expected in plain(target, "float32").items():
        assert outcomes[name].token_ids == expected.token_ids, name
    assert channel.unknown > 0
    assert engine.stats.speculation.accepted_tokens > 0


class Poisoned(Recording):
    """Some features arrive as NaN."""

    def submit(self, opens: Sequence[Open], propose: Propose) -> None:
        extends = [self._spoilt(e) if e.key.seq_id % 2 else e for e in propose.extends]
        super().submit(opens, replace(propose, extends=tuple(extends)))

    def _spoilt(self, extend: Extend) -> Extend:
        assert extend.features is not None
        return replace(extend, features=np.full_like(extend.features, np.nan))


@pytest.mark.parametrize("method", HEADS)
def test_s12_drafts_of_nan_change_no_token(
    target: Path, drafts: dict[str, dict[str, Any]], method: str
) -> None:
    of = config(target, "float32", {**drafts[method], "min_path_value": 0.0})
    engine = build_engine(of, Poisoned(of), "test")
    outcomes = run(engine, [each for _, each in mix()])
    for index, (name, expected) in enumerate(plain(target, "float32").items()):
        assert outcomes[name].token_ids == expected.token_ids, name
        assert (outcomes[name].stats.draft_tokens > 0) == (index % 2 == 0 and name != "r2"), name


@pytest.mark.parametrize("method", HEADS)
def test_features_are_the_targets(target: Path, drafts: dict[str, dict[str, Any]], method: str) -> None:
    """At every position that was sent: after prompts in chunks, accepted paths that moved, preemption."""
    speculation = {**drafts[method], "num_speculative_tokens": 16, "min_path_value": 0.0}
    engine, channel = start(config(target, "float32", speculation, max_num_batched_tokens=48))
    requests = [each for _, each in mix()]
    outcomes = run(engine, requests)
    assert engine.stats.preemptions > 0
    compared = 0
    for seq_id, each in enumerate(requests):
        text = each.prompt_ids + outcomes[each.request_id].token_ids
        expected = features(target, HEADS[method], text)
        sent = {position: row for (seq, position), row in channel.sent.items() if seq == seq_id}
        for position, row in sent.items():
            np.testing.assert_allclose(row, expected[position], rtol=1e-3, atol=1e-3)
        compared += len(sent)
    assert compared > 200


@torch.no_grad()
def features(target: Path, head: TinyHead, text: Sequence[int]) -> Tensor:
    """[positions, d] by transformers and the plain head."""
    model = AutoModelForCausalLM.from_pretrained(target).double()
    left: list[Tensor] = []
    model.model.norm.register_forward_pre_hook(lambda _, inputs: left.append(inputs[0][0]))
    states = model(torch.tensor([text]), output_hidden_states=True).hidden_states
    if head.kind == "eagle":
        return states[-1][0]  # after the final norm
    dense = DenseHead(head, model.get_input_embeddings().weight, model.get_output_embeddings().weight)
    return dense.fuse(torch.stack([states[0][0], states[1][0], left[0]], dim=1))
