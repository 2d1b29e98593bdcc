"""Chat completions through the openai client."""

from __future__ import annotations

from dataclasses import replace

import openai
import pytest
from http_harness import CARD, EOS_ID, MODEL, TOKENIZER, ScriptedVerifier, encode, says, serve

from serving.types import GenerationRequest, SamplingDefaults

HI = [{"role": "user", "content": "Hi"}]
HI_PROMPT = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


def prompt_of(request: GenerationRequest) -> str:
    return TOKENIZER.decode(request.prompt_ids, skip_special_tokens=False)


def test_an_answer(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HI)
    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    assert answer.model == MODEL
    assert answer.system_fingerprint == "fp-1"
    (choice,) = answer.choices
    assert (choice.index, choice.message.role, choice.message.content) == (0, "assistant", "hello world")
    assert choice.finish_reason == "stop"
    prompt_tokens, completion_tokens = len(encode(HI_PROMPT)), len(encode("hello world")) + 1
    assert answer.usage.prompt_tokens == prompt_tokens
    assert answer.usage.completion_tokens == completion_tokens
    assert answer.usage.total_tokens == prompt_tokens + completion_tokens


@pytest.mark.parametrize("cached", [0, 16])
def test_usage_says_what_was_cached(client: openai.OpenAI, verifier: ScriptedVerifier, cached: int) -> None:
    """Once for a prompt: its second choice may find what the first has just computed."""
    verifier.script = lambda r: says("hi", cached=cached if r.choice_index == 0 else 32)(r)
    answer = client.chat.completions.create(model=MODEL, messages=HI, n=2)
    assert answer.usage.prompt_tokens_details.cached_tokens == cached


def test_the_template_makes_the_prompt(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    parts = [{"type": "text", "text": "Hi"}, {"type": "text", "text": "there"}]
    client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts}],
    )
    assert prompt_of(verifier.requests[0]) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nHi\nthere<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_parameters_reach_the_verifier(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    client.chat.completions.create(
        model=MODEL,
        messages=HI,
        max_completion_tokens=7,
        temperature=0.5,
        top_p=0.9,
        seed=-1,
        user="someone",
        extra_body={
            "top_k": 5,
            "min_p": 0.1,
            "stop_token_ids": [9],
            "num_speculative_tokens": 3,
            "cache_salt": "tenant",
            "priority": 1,
            "prompt_cache_key": "talk",
        },
    )
    request = verifier.requests[0]
    assert (request.cache_salt, request.priority, request.cache_key) == ("tenant", 1, "talk")
    assert request.tokenizer == CARD.tokenizer
    params = verifier.requests[0].params
    assert (params.max_tokens, params.temperature, params.top_p, params.top_k) == (7, 0.5, 0.9, 5)
    assert (params.min_p, params.seed, params.num_speculative_tokens) == (0.1, 2**64 - 1, 3)
    assert params.stop_token_ids == {9, EOS_ID}


def test_what_changes_logits_reaches_the_verifier(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    client.chat.completions.create(
        model=MODEL,
        messages=HI,
        presence_penalty=-2,
        frequency_penalty=0.5,
        logit_bias={"5": -100, "7": 0, "9": 1.5},
        extra_body={"repetition_penalty": 1.2, "min_tokens": 4},
    )
    params = verifier.requests[0].params
    assert (params.presence_penalty, params.frequency_penalty, params.repetition_penalty) == (-2, 0.5, 1.2)
    assert params.logit_bias == ((5, -100), (9, 1.5))
    assert params.min_tokens == 4


def test_the_end_of_sequence_can_be_ignored(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    client.chat.completions.create(model=MODEL, messages=HI, extra_body={"ignore_eos": True})
    client.chat.completions.create(
        model=MODEL, messages=HI, extra_body={"ignore_eos": True, "stop_token_ids": [9]}
    )
    assert [request.params.stop_token_ids for request in verifier.requests] == [set(), {9}]


def test_defaults(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    client.chat.completions.create(model=MODEL, messages=HI)
    params = verifier.requests[0].params
    assert (params.temperature, params.top_p, params.top_k, params.min_p) == (1.0, 1.0, 0, 0.0)
    assert (params.presence_penalty, params.frequency_penalty, params.repetition_penalty) == (0, 0, 1)
    assert (params.logit_bias, params.min_tokens, params.stop_token_ids) == ((), 0, {EOS_ID})
    assert (params.max_tokens, params.num_speculative_tokens) == (64, None)


def test_the_models_own_defaults_hold_where_a_request_does_not_say() -> None:
    recommended = SamplingDefaults(0.6, 0.95, 20, 0.05, 1.1)
    verifier = ScriptedVerifier(card=replace(CARD, sampling=recommended))
    with serve(verifier) as running:
        client = openai.OpenAI(base_url=f"{running.url}/v1", api_key="none")
        client.chat.completions.create(model=MODEL, messages=HI)
        client.chat.completions.create(
            model=MODEL,
            messages=HI,
            temperature=0,
            top_p=1,
            extra_body={"top_k": -1, "min_p": 0, "repetition_penalty": 1},
        )
    default, asked = [
        (p.temperature, p.top_p, p.top_k, p.min_p, p.repetition_penalty)
        for p in (request.params for request in verifier.requests)
    ]
    assert default == (0.6, 0.95, 20, 0.05, 1.1)
    assert asked == (0, 1, 0, 0, 1)


@pytest.mark.parametrize("off", [-1, 0, 10**6])
def test_top_k_that_cuts_nothing_is_off(client: openai.OpenAI, verifier: ScriptedVerifier, off: int) -> None:
    client.chat.completions.create(model=MODEL, messages=HI, extra_body={"top_k": off})
    assert verifier.requests[0].params.top_k == 0


def test_a_drawn_seed_is_reported_and_repeats_the_request(
    client: openai.OpenAI, verifier: ScriptedVerifier
) -> None:
    seeds = []
    for _ in range(2):
        answer = client.chat.completions.create(model=MODEL, messages=HI)
        seeds.append(answer.speculation["seed"])
    assert seeds == [request.params.seed for request in verifier.requests]
    assert seeds[0] != seeds[1]
    client.chat.completions.create(model=MODEL, messages=HI, seed=seeds[0])
    assert verifier.requests[2].params == verifier.requests[0].params


def test_a_given_seed_is_reported_as_given(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HI, seed=-5)
    assert answer.speculation["seed"] == -5


def test_speculation_statistics(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    verifier.script = says("the quick brown fox", by=2)
    answer = client.chat.completions.create(model=MODEL, messages=HI)
    tokens = len(encode("the quick brown fox")) + 1
    steps = -(-tokens // 2)
    assert answer.speculation["steps"] == steps
    assert answer.speculation["draft_tokens"] == 2 * steps
    assert answer.speculation["accepted_tokens"] == tokens - steps
    assert answer.speculation["tau"] == round(tokens / steps, 3)


def test_length_ends_it(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HI, max_tokens=2)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 2
    assert answer.choices[0].message.content == TOKENIZER.decode(encode("hello world")[:2])


@pytest.mark.parametrize("stop", ["brown", ["lazy", "brown"]])
def test_stop_strings(client: openai.OpenAI, verifier: ScriptedVerifier, stop: object) -> None:
    text = "the quick brown fox jumps over the lazy dog"
    verifier.script = says(text, by=3)
    answer = client.chat.completions.create(model=MODEL, messages=HI, stop=stop)
    assert answer.choices[0].message.content == "the quick "
    assert answer.choices[0].finish_reason == "stop"
    ids = encode(text)
    needed = next(n for n in range(len(ids)) if "brown" in TOKENIZER.decode(ids[:n]))
    assert answer.usage.completion_tokens == needed
    assert verifier.aborted == [verifier.requests[0].request_id]


def test_several_choices(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    words = ["the quick brown fox", "a light draft head"]
    verifier.script = lambda request: says(words[request.choice_index])(request)
    answer = client.chat.completions.create(model=MODEL, messages=HI, n=2, seed=3, temperature=0)
    assert [choice.message.content for choice in answer.choices] == words
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.usage.prompt_tokens == len(encode(HI_PROMPT))
    assert answer.usage.completion_tokens == sum(len(encode(text)) + 1 for text in words)
    assert {request.params.seed for request in verifier.requests} == {3}
    assert len({request.request_id for request in verifier.requests}) == 2


def test_characters_of_several_tokens(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    verifier.script = says("Größe 東京 🙃👩‍👩‍👧", by=1)
    answer = client.chat.completions.create(model=MODEL, messages=HI)
    assert answer.choices[0].message.content == "Größe 東京 🙃👩‍👩‍👧"


def test_what_a_client_sends_back_of_an_answer_is_accepted(client: openai.OpenAI) -> None:
    first = client.chat.completions.create(model=MODEL, messages=HI)
    messages = [*HI, first.choices[0].message.model_dump(), {"role": "user", "content": "And?"}]
    again = client.chat.completions.create(model=MODEL, messages=messages)
    assert again.choices[0].message.content == "hello world"
