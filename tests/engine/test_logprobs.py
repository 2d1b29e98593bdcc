"""What an engine reports of its tokens, against transformers and the definitions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from adversary import Adversary
from runs import request, run
from tiny_models import config_for
from transformers import AutoModelForCausalLM

from serving.engine.build import build_engine
from serving.engine.engine import Engine
from serving.engine.logprobs import token_logprobs
from serving.types import FinishReason, TokenLogprobs

PROMPT = tuple(np.random.default_rng(5).integers(0, 100, 50).tolist())
ADJUSTED: dict[str, Any] = {
    "temperature": 1.5,
    "seed": 1,
    "frequency_penalty": 1.0,
    "logit_bias": ((8, 50.0), (9, 50.0)),
}


def build(folder: Path, text: tuple[int, ...] = (), m: int = 8, **engine: Any) -> Engine:
    """Speculating about `text`, if there is any."""
    config = config_for(folder, **engine)
    speculation = config.speculation.model_copy(update={"num_speculative_tokens": m})
    channel = Adversary([text], 0, 100) if text else None
    return build_engine(config.model_copy(update={"speculation": speculation}), channel, "test")


@torch.inference_mode()
def log_softmax(folder: Path, text: Sequence[int]) -> torch.Tensor:
    """[positions, vocab] of the next token, by transformers."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model(torch.tensor([text])).logits[0].log_softmax(-1)


def assert_of(row: torch.Tensor, token: int, given: TokenLogprobs, likeliest: int) -> None:
    assert given.logprob == pytest.approx(float(row[token]), abs=1e-4)
    top = row.topk(likeliest)
    assert [token for token, _ in given.likeliest] == top.indices.tolist()
    assert [value for _, value in given.likeliest] == pytest.approx(top.values.tolist(), abs=1e-4)


@pytest.mark.parametrize("params", [{}, ADJUSTED])
@pytest.mark.parametrize("likeliest", [0, 1, 5])
def test_they_are_the_models_own(llama: Path, likeliest: int, params: dict[str, Any]) -> None:
    """Neither temperature nor penalties nor bias changes them."""
    each = request("r", PROMPT, 30, logprobs=likeliest, **params)
    text = PROMPT + run(build(llama), [each])["r"].token_ids
    engine = build(llama, text)
    outcome = run(engine, [each])["r"]
    assert engine.stats.speculation.accepted_tokens > 5
    assert PROMPT + outcome.token_ids == text
    rows = log_softmax(llama, text)[len(PROMPT) - 1 :]
    for row, token, given in zip(rows, outcome.token_ids, outcome.logprobs, strict=False):
        assert_of(row, token, given, likeliest)
    assert len(outcome.logprobs) == 30


@pytest.mark.parametrize("rows", [16, 512])
def test_of_the_prompt(llama: Path, rows: int) -> None:
    """In one chunk and in several, beside a request that wants none."""
    wants = request("r", PROMPT, 3, logprobs=2, prompt_logprobs=True)
    outcomes = run(build(llama, max_num_batched_tokens=rows), [wants, request("other", PROMPT, 3)])
    told = outcomes["r"].prompt_logprobs
    for row, token, given in zip(log_softmax(llama, PROMPT), PROMPT[1:], told, strict=False):
        assert_of(row, token, given, 2)
    assert len(told) == len(PROMPT) - 1
    assert len(outcomes["r"].logprobs) == 3
    assert outcomes["r"].token_ids == outcomes["other"].token_ids
    assert outcomes["other"].logprobs == outcomes["other"].prompt_logprobs == ()


def test_of_a_prompt_once_although_it_is_preempted(llama: Path) -> None:
    """Two older requests take its last block while it is being read, 14 of its 250 tokens a step."""
    older = [request(f"older{i}", PROMPT[8 * i :][:8], 30) for i in range(2)]
    younger = request("younger", PROMPT * 5, 5, logprobs=0, prompt_logprobs=True)
    engine = build(llama, kv_cache_memory="320KiB", max_num_batched_tokens=16)
    outcome = run(engine, arrivals=[(0, older[0]), (0, older[1]), (8, younger)])["younger"]
    assert engine.stats.preemptions == 1
    assert engine.stats.steps > 8 + 250 / 14 + 5 + 15, "it was not read a second time"
    assert outcome == run(build(llama), [younger])["younger"]


def test_of_a_prompt_that_is_cached(llama: Path) -> None:
    """It is computed again, for nobody has kept its logits; others go on finding it."""
    engine, wants = build(llama), request("r", PROMPT, 3, logprobs=1, prompt_logprobs=True)
    first, again = (run(engine, [wants])["r"] for _ in range(2))
    assert engine.stats.prefix_hits == 0
    assert again.prompt_logprobs == first.prompt_logprobs
    run(engine, [request("other", PROMPT, 3)])
    assert engine.stats.prefix_hits > 0


def test_a_replayed_request_tells_of_what_is_new(llama: Path) -> None:
    whole = run(build(llama), [request("r", PROMPT, 10, logprobs=1, prompt_logprobs=True)])["r"]
    rest = request("r", PROMPT, 10, output=whole.token_ids[:4], logprobs=1, prompt_logprobs=True)
    outcome = run(build(llama), [rest])["r"]
    assert outcome.logprobs == whole.logprobs[4:]
    assert outcome.prompt_logprobs == ()


def test_a_prompt_of_one_token_has_none(llama: Path) -> None:
    outcome = run(build(llama), [request("r", (5,), 2, logprobs=1, prompt_logprobs=True)])["r"]
    assert (len(outcome.prompt_logprobs), len(outcome.logprobs)) == (0, 2)


def test_they_end_with_the_tokens(llama: Path) -> None:
    """S2: of an accepted block that goes on behind a stop token nothing is told."""
    params: dict[str, Any] = {"temperature": 1.0, "seed": 1, "logprobs": 0}
    whole = run(build(llama), [request("r", PROMPT, 30, **params)])["r"]
    output = whole.token_ids
    at = next(i for i in range(4, 30) if output[i] not in output[:i])
    stopping = request("r", PROMPT, 30, stop_token_ids=frozenset({output[at]}), **params)
    outcome = run(build(llama, PROMPT + output, m=16), [stopping])["r"]
    assert outcome.reason is FinishReason.STOP
    assert outcome.token_ids == output[: at + 1]
    assert outcome.logprobs == whole.logprobs[: at + 1]


def test_ties_go_to_the_lowest_id() -> None:
    row = torch.tensor([1.0, 3.0, 2.0, 3.0, 2.0, 2.0])
    assert [token for token, _ in token_logprobs(row, 0, 4).likeliest] == [1, 3, 2, 4]
    assert [token for token, _ in token_logprobs(row, 0, 20).likeliest] == [1, 3, 2, 4, 5, 0]


def test_masked_tokens_have_no_probability() -> None:
    given = token_logprobs(torch.tensor([0.0, -torch.inf, 0.0]), 1, 3)
    assert given.logprob == -np.inf
    assert [value for _, value in given.likeliest] == pytest.approx([-np.log(2), -np.log(2), -np.inf])


# ---- what is chosen, by the definitions ----


@pytest.mark.parametrize(
    "params",
    [
        {"frequency_penalty": 2.0},
        {"frequency_penalty": -2.0},
        {"presence_penalty": 2.0},
        {"repetition_penalty": 1.5},
        {"repetition_penalty": 0.7},
        {"logit_bias": ((4, 6.0), (5, -100.0))},
    ],
    ids=str,
)
def test_each_token_is_the_best_of_the_adjusted_logits(llama: Path, params: dict[str, Any]) -> None:
    """By transformers' logits and the definitions: S4 and S5 while speculating."""
    each = request("r", PROMPT, 40, **params)
    text = PROMPT + run(build(llama), [each])["r"].token_ids
    assert PROMPT + run(build(llama, text), [each])["r"].token_ids == text
    with torch.inference_mode():
        model = AutoModelForCausalLM.from_pretrained(llama, dtype=torch.float32)
        rows = model(torch.tensor([text])).logits[0].numpy()
    for position in range(len(PROMPT), len(text)):
        row, output = rows[position - 1], text[len(PROMPT) : position]
        for token, bias in params.get("logit_bias", ()):
            row[token] += bias
        for token in set(text[:position]):
            row[token] *= params.get("repetition_penalty", 1.0) ** (-1 if row[token] > 0 else 1)
        for token in set(output):
            row[token] -= params.get("presence_penalty", 0.0)
            row[token] -= params.get("frequency_penalty", 0.0) * output.count(token)
        assert row[text[position]] > row.max() - 1e-3
    assert text != PROMPT + run(build(llama), [request("r", PROMPT, 40)])["r"].token_ids


def test_no_stop_token_before_min_tokens(llama: Path) -> None:
    output = run(build(llama), [request("r", PROMPT, 30)])["r"].token_ids
    stop = frozenset(output[:12])
    params: dict[str, Any] = {"stop_token_ids": stop, "min_tokens": 10}
    outcome = run(build(llama, PROMPT + output), [request("r", PROMPT, 30, **params)])["r"]
    assert not stop & set(outcome.token_ids[:10])
    assert len(outcome.token_ids) > 10
    held = run(build(llama, PROMPT + output), [request("r", PROMPT, 30, **params | {"min_tokens": 30})])["r"]
    assert not stop & set(held.token_ids)
    assert (len(held.token_ids), held.reason) == (30, FinishReason.LENGTH)
