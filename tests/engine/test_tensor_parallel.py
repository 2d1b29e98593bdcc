"""Invariant 1 over several ranks: the tokens of one rank, with speculation and without.

Ranks add parts of a sum that one rank adds in one go, so their logits differ in the last bits: at the first
difference to one rank, the two tokens must be as good as tied. Among themselves they always add in the same
order: with speculation or without, the same ranks give the same bits.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from adversary import Adversary
from head_configs import config as head_config
from near_ties import TIE, margin_between
from runs import Outcome, request, run, take_step
from tiny_models import config_for, save_tiny, tiny_model

from serving.config import ServeConfig
from serving.drafting.base import DraftChannel
from serving.drafting.colocated import ColocatedChannel
from serving.engine.build import build_engine
from serving.engine.build_drafter import build_network_drafter
from serving.engine.engine import NON_FINITE, Engine
from serving.engine.local_ranks import local_ranks
from serving.errors import ConfigError, RankLostError
from serving.types import GenerationRequest

VOCAB = 83  # the smaller of the two models'
VOCAB_OF_TWINS = 96


def mix() -> list[GenerationRequest]:
    """Prompts of one row and of many, two that begin alike; greedy, sampled, adjusted."""
    rng = np.random.default_rng(0)
    prompts = [tuple(rng.integers(0, VOCAB, n).tolist()) for n in (1, 5, 17, 40, 70)]
    prompts.append(prompts[4][:50] + prompts[1])
    ways: list[dict[str, Any]] = [
        {},
        {"temperature": 1.0, "seed": 1},
        {"temperature": 0.8, "top_p": 0.9, "seed": 2, "logprobs": 2},
        {"frequency_penalty": 1.0, "logprobs": 1, "prompt_logprobs": True},
        {},
        {"temperature": 1.2, "top_k": 20, "seed": 3, "logit_bias": ((3, 2.0),)},
    ]
    return [request(f"r{i}", p, 20, **way) for i, (p, way) in enumerate(zip(prompts, ways, strict=True))]


@dataclass(frozen=True)
class Setup:
    model: str
    ranks: int
    dtype: str = "float32"
    backend: str = "native"

    def __str__(self) -> str:
        return f"{self.model}-{self.ranks}-{self.dtype}-{self.backend}"


@pytest.fixture(scope="session")
def biased(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Biases on every projection; the MLP and the vocabulary are no whole strips for every rank."""
    model = tiny_model(
        seed=2, head_dim=32, attention_bias=True, mlp_bias=True, intermediate_size=112, vocab_size=90
    )
    return save_tiny(tmp_path_factory.mktemp("models") / "biased", model)


@contextmanager
def engine_of(config: ServeConfig, channel: DraftChannel | None) -> Iterator[Engine]:
    with local_ranks(config) as ranks:
        yield build_engine(config, channel, "test", ranks)


def alone(config: ServeConfig, requests: list[GenerationRequest]) -> dict[str, Outcome]:
    """Each by itself on one rank, in full, without speculation."""
    one = {"tensor_parallel_size": 1, "enable_prefix_caching": False}
    config = config.model_copy(update={"engine": config.engine.model_copy(update=one)})
    engine = build_engine(config, None, "alone")
    return {each.request_id: run(engine, [each])[each.request_id] for each in requests}


def assert_as_alone(folder: Path, each: GenerationRequest, ours: Outcome, expected: Outcome) -> None:
    if ours.token_ids == expected.token_ids:
        return
    pairs = enumerate(zip(ours.token_ids, expected.token_ids, strict=True))
    at, (one, other) = next((at, pair) for at, pair in pairs if pair[0] != pair[1])
    margin = margin_between(folder, each, expected.token_ids[:at], one, other)
    assert margin < TIE, (each, at, ours.token_ids, expected.token_ids, margin)
    print(f"near tie in {each.request_id} at {at}: {one} and {other} differ by {margin:.1e}")


@pytest.mark.parametrize(
    "setup",
    [
        Setup("llama", 2),
        Setup("qwen3", 4),  # one key/value head for all ranks
        Setup("biased", 2, backend="torch"),
        pytest.param(Setup("llama", 4), marks=pytest.mark.slow),
        pytest.param(Setup("llama", 2, "bfloat16"), marks=pytest.mark.slow),
        pytest.param(Setup("qwen3", 2, "bfloat16"), marks=pytest.mark.slow),
        pytest.param(Setup("biased", 4), marks=pytest.mark.slow),
        pytest.param(Setup("qwen3", 2, backend="torch"), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_ranks_change_no_token(request: pytest.FixtureRequest, setup: Setup) -> None:
    """In chunks, with prefixes found, with trees of which paths move."""
    folder, requests = request.getfixturevalue(setup.model), mix()
    config = config_for(
        folder,
        setup.dtype,
        attention_backend=setup.backend,
        tensor_parallel_size=setup.ranks,
        max_num_batched_tokens=48,
        deterministic=True,
    )
    speculation = config.speculation.model_copy(update={"num_speculative_tokens": 6})
    config = config.model_copy(update={"speculation": speculation})
    expected = alone(config, requests)
    texts = [each.prompt_ids + expected[each.request_id].token_ids for each in requests]
    adversary = Adversary(texts, 0, VOCAB)
    with engine_of(config, adversary) as engine:
        drafted = run(engine, requests)
        again = run(engine, requests[3:])
        plainly = [plain(each) for each in requests]
        plain_steps = run(engine, plainly)
    assert engine.stats.prefix_hits > 0
    assert engine.stats.speculation.accepted_tokens > 20
    assert adversary.moved > 0
    for each in requests:
        ours, theirs = drafted[each.request_id], plain_steps[each.request_id]
        assert_as_alone(folder, each, ours, expected[each.request_id])
        assert (ours.token_ids, ours.logprobs, ours.prompt_logprobs) == (
            theirs.token_ids,
            theirs.logprobs,
            theirs.prompt_logprobs,
        )
    assert [o.token_ids for o in again.values()] == [drafted[name].token_ids for name in again]


def plain(each: GenerationRequest) -> GenerationRequest:
    """Without drafts, and without what was cached for the others."""
    return replace(each, params=replace(each.params, num_speculative_tokens=0), cache_salt="plain")


def test_a_step_larger_than_one_message(llama: Path) -> None:
    """Sixteen prompts are read at once; m is chosen from a profile that all ranks were timed for."""
    config = config_for(llama, tensor_parallel_size=2, max_num_batched_tokens=4096)
    rng = np.random.default_rng(1)
    requests = [request(f"r{i}", rng.integers(0, VOCAB, 200).tolist(), 3) for i in range(16)]
    expected = alone(config, requests)
    with engine_of(config, Adversary([], 0, VOCAB)) as engine:
        outcomes = run(engine, requests)
    assert engine.stats.steps < 8
    for each in requests:
        assert_as_alone(llama, each, outcomes[each.request_id], expected[each.request_id])


def test_what_cannot_be_read_spoils_its_own_request_alone(tmp_path: Path) -> None:
    """S11: the rank that does not have the token has zeros for it, not its own first row."""
    model = tiny_model(head_dim=32)
    with torch.no_grad():
        model.get_input_embeddings().weight[[0, 99]] = torch.nan
    config = config_for(save_tiny(tmp_path, model), tensor_parallel_size=2)
    requests = [request("sick", (1, 99, 2)), request("healthy", (1, 70, 2), 8, logit_bias=((0, -100.0),))]
    with engine_of(config, None) as engine:
        outcomes = run(engine, requests)
    assert outcomes["sick"].error == NON_FINITE
    assert outcomes["healthy"].token_ids == alone(config, requests[1:])["healthy"].token_ids


def test_a_head_drafts_for_several_ranks(target: Path, drafts: dict[str, dict[str, Any]]) -> None:
    """Rank 0 sees the residual stream whole: the head is fed as by one rank, and accepted as often."""
    accepted = []
    requests = [each for each in mix() if len(each.prompt_ids) < 60]
    requests = [replace(each, prompt_ids=tuple(t % 24 for t in each.prompt_ids)) for each in requests]
    for size in (1, 2):
        settings = {"tensor_parallel_size": size, "kv_cache_memory": 2**20}
        of = head_config(target, "float32", drafts["eagle3"], **settings)
        expected = alone(of, requests)
        channel = ColocatedChannel(build_network_drafter(of))
        if size == 1:
            engine = build_engine(of, channel, "test")
            outcomes = run(engine, requests)
        else:
            with engine_of(of, channel) as engine:
                outcomes = run(engine, requests)
        for each in requests:
            assert_as_alone(target, each, outcomes[each.request_id], expected[each.request_id])
        accepted.append(engine.stats.speculation.accepted_tokens)
    assert accepted[0] == accepted[1] > 0


@pytest.mark.slow
def test_the_default_model_on_three_ranks() -> None:
    """Nine heads and three key/value heads; tokens of one rank, in both ways."""
    settings = {
        "dtype": "float32",
        "engine": {"kv_cache_memory": "64MiB", "max_model_len": 512, "num_threads": 1},
        "speculation": {"num_speculative_tokens": 5, "placement": "colocated"},
    }
    one = ServeConfig.load(settings, environ={})
    requests = [
        request("greedy", range(1000, 1012), 24),
        request("sampled", range(2000, 2100, 5), 24, temperature=0.8, seed=4),
    ]
    expected = alone(one, requests)
    three = one.model_copy(update={"engine": one.engine.model_copy(update={"tensor_parallel_size": 3})})
    with engine_of(three, ColocatedChannel(build_network_drafter(three))) as engine:
        outcomes = run(engine, requests)
        plain_steps = run(engine, [plain(each) for each in requests])
    for each in requests:
        ours = outcomes[each.request_id].token_ids
        assert ours == plain_steps[each.request_id].token_ids
        assert ours == expected[each.request_id].token_ids
    assert engine.stats.speculation.accepted_tokens > 0


def test_of_tokens_that_tie_the_lowest_wins_on_whichever_rank_it_is(tmp_path: Path) -> None:
    """S14: every token of the second half, rank 1's, has a twin of the same bits in the first."""
    half = VOCAB_OF_TWINS // 2
    model = tiny_model(vocab_size=VOCAB_OF_TWINS)
    with torch.no_grad():
        model.lm_head.weight[half:] = model.lm_head.weight[:half]
    config = config_for(save_tiny(tmp_path, model), tensor_parallel_size=2)
    requests = [request(f"r{i}", (i, 3, 7), logprobs=2) for i in range(4)]
    texts = [each.prompt_ids + alone(config, [each])[each.request_id].token_ids for each in requests]
    with engine_of(config, Adversary(texts, 0, VOCAB_OF_TWINS)) as engine:
        outcomes = run(engine, requests)
        plainly = run(engine, [plain(each) for each in requests])
    assert engine.stats.speculation.accepted_tokens > 0
    for each, text in zip(requests, texts, strict=True):
        ours = outcomes[each.request_id]
        assert each.prompt_ids + ours.token_ids == text
        assert ours.token_ids == plainly[each.request_id].token_ids
        assert max(ours.token_ids) < half
        for told in ours.logprobs:
            (one, first), (other, second) = told.likeliest
            assert (other - one, first) == (half, second)


# ---- what goes wrong ----


def test_a_step_fails_when_a_rank_is_gone(llama: Path) -> None:
    others = set(multiprocessing.active_children())
    with pytest.raises(RankLostError), engine_of(config_for(llama, tensor_parallel_size=2), None) as engine:
        go_on_alone(engine, others)


def go_on_alone(engine: Engine, others: set[Any]) -> None:
    """Kill the rank that is not among the `others`, between two steps."""
    (rank,) = set(multiprocessing.active_children()) - others
    outcomes = {"r": Outcome()}
    engine.add(request("r", (1, 2, 3), 20))
    take_step(engine, outcomes)
    os.kill(rank.pid, signal.SIGKILL)
    while engine.has_work:
        take_step(engine, outcomes)


def test_ranks_that_cannot_share_the_heads_are_refused(llama: Path) -> None:
    config = config_for(llama, tensor_parallel_size=3)
    with (
        pytest.raises(ConfigError, match="tensor_parallel_size 3 does not divide the model's 4 attention"),
        engine_of(config, None),
    ):
        raise AssertionError("it was built")


def test_an_engine_without_its_ranks_is_refused(llama: Path) -> None:
    with pytest.raises(ConfigError, match="tensor_parallel_size is 2, but there are 1 ranks"):
        build_engine(config_for(llama, tensor_parallel_size=2), None, "test")


def test_another_number_of_ranks_is_another_model(llama: Path) -> None:
    """Its last bits differ, so it must not continue what one rank has begun."""
    config = config_for(llama, tensor_parallel_size=2)
    with engine_of(config, None) as engine:
        fingerprint = engine.card().fingerprint
    assert fingerprint != build_engine(config_for(llama), None, "test").card().fingerprint
