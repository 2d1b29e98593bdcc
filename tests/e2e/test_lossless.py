"""Speculation changes how fast a token comes, never which: compared through HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from deployed import Deployed

pytestmark = pytest.mark.ray

QUESTIONS = [
    "What is the capital of France?",
    "Write a Python function that reverses a string, then explain it line by line.",
    "Repeat this sentence three times: the quick brown fox jumps over the lazy dog.",
    "List the numbers from one to twenty in words.",
]


async def answers(service: Deployed, prompts: list[str], **params: Any) -> list[Any]:
    """All at once, so that they share the engine's batches."""
    client = service.async_client()
    calls = [
        client.chat.completions.create(
            model=service.model, messages=[{"role": "user", "content": prompt}], **params
        )
        for prompt in prompts
    ]
    return await asyncio.gather(*calls)


def texts(completions: list[Any]) -> list[str]:
    return [completion.choices[0].message.content for completion in completions]


def accepted(completions: list[Any]) -> int:
    return sum(completion.model_extra["speculation"]["accepted_tokens"] for completion in completions)


async def test_the_default_model_knows_its_geography(default: Deployed) -> None:
    (answer,) = await answers(default, QUESTIONS[:1], max_tokens=32, temperature=0)
    assert "Paris" in answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("temperature", [0.0, 0.7])
async def test_the_default_model_says_the_same_with_and_without(
    default: Deployed, temperature: float
) -> None:
    params: dict[str, Any] = {"max_tokens": 64, "temperature": temperature, "seed": 11}
    await asyncio.to_thread(default.wait_until_drafting)
    speculative = await answers(default, QUESTIONS, **params)
    plain = await answers(default, QUESTIONS, **params, extra_body={"num_speculative_tokens": 0})
    assert texts(speculative) == texts(plain)
    assert accepted(plain) == 0
    assert accepted(speculative) > 0


@pytest.mark.parametrize("m", [1, 3, 255])
async def test_any_number_of_draft_tokens_gives_the_same(tiny: Deployed, m: int) -> None:
    prompts = [f"{word} " * 10 for word in ("one", "two", "three", "four", "five")]
    params: dict[str, Any] = {"max_tokens": 100, "temperature": 0.5, "seed": 2}
    speculative = await answers(tiny, prompts, **params, extra_body={"num_speculative_tokens": m})
    plain = await answers(tiny, prompts, **params, extra_body={"num_speculative_tokens": 0})
    assert texts(speculative) == texts(plain)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_penalties_bias_and_logprobs_are_those_of_plain_decoding(
    tiny: Deployed, temperature: float
) -> None:
    prompts = [f"{word} " * 10 for word in ("one", "two", "three")]
    params: dict[str, Any] = {
        "max_tokens": 60,
        "temperature": temperature,
        "seed": 3,
        "frequency_penalty": -1.5,  # it repeats itself, so that prompt lookup finds something
        "presence_penalty": 0.3,
        "logit_bias": {"50": 2, "51": -100},
        "logprobs": True,
        "top_logprobs": 2,
    }
    await asyncio.to_thread(tiny.wait_until_drafting)
    more = {"repetition_penalty": 1.02, "min_tokens": 30, "stop_token_ids": [60, 61]}
    speculative = await answers(tiny, prompts, **params, extra_body=more)
    plain = await answers(tiny, prompts, **params, extra_body={**more, "num_speculative_tokens": 0})
    assert texts(speculative) == texts(plain)
    assert accepted(speculative) > 0
    for one, other in zip(speculative, plain, strict=True):
        ours, theirs = one.choices[0].logprobs.content, other.choices[0].logprobs.content
        assert len(ours) == one.usage.completion_tokens
        assert [entry.bytes for entry in ours] == [entry.bytes for entry in theirs]
        assert [e.logprob for e in ours] == pytest.approx([e.logprob for e in theirs], abs=1e-4)


def test_a_prompt_is_scored_the_same_whatever_follows(tiny: Deployed) -> None:
    """As evaluation harnesses do it: echo, with an answer or without."""
    client, prompt = tiny.client(), list(range(40, 60))
    request: dict[str, Any] = {
        "model": "tiny",
        "prompt": prompt,
        "temperature": 0,
        "logprobs": 1,
        "echo": True,
    }
    answered = client.completions.create(**request, max_tokens=20).choices[0]
    alone = client.completions.create(**request, max_tokens=0)
    scores = alone.choices[0].logprobs.token_logprobs
    assert (len(scores), scores[0], alone.usage.completion_tokens) == (20, None, 0)
    assert scores[1:] == pytest.approx(answered.logprobs.token_logprobs[1:20], abs=1e-4)
    assert len(answered.logprobs.token_logprobs) == 40
    written = tiny.post("detokenize", {"tokens": prompt}).json()["prompt"]
    assert alone.choices[0].text == written
    assert answered.text.startswith(written)
