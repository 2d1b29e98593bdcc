"""Text completions: prompts as text or ids, one or several."""

from __future__ import annotations

import openai
import pytest
from http_harness import MODEL, ScriptedVerifier, encode, says


def test_an_answer(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="the quick")
    assert answer.object == "text_completion"
    assert answer.id.startswith("cmpl-")
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("hello world", "stop")
    assert answer.usage.prompt_tokens == len(encode("the quick"))


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ("the quick", [encode("the quick")]),
        (["the quick", "a"], [encode("the quick"), encode("a")]),
        ([5, 6, 7], [[5, 6, 7]]),
        ([[5, 6], [7]], [[5, 6], [7]]),
    ],
)
def test_forms_of_a_prompt(
    client: openai.OpenAI, verifier: ScriptedVerifier, prompt: object, ids: list[list[int]]
) -> None:
    answer = client.completions.create(model=MODEL, prompt=prompt)
    by_index = sorted(verifier.requests, key=lambda request: request.request_id)
    assert [list(request.prompt_ids) for request in by_index] == ids
    assert [choice.index for choice in answer.choices] == list(range(len(ids)))
    assert answer.usage.prompt_tokens == sum(map(len, ids))


def test_several_choices_of_several_prompts(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    verifier.script = lambda r: says(f"{r.prompt_ids[0]}.{r.choice_index}")(r)
    answer = client.completions.create(model=MODEL, prompt=[[5], [6]], n=2)
    assert [choice.text for choice in answer.choices] == ["5.0", "5.1", "6.0", "6.1"]
    assert answer.usage.prompt_tokens == 2


def test_cached_tokens_of_several_prompts_add_up(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    verifier.script = lambda r: says("hi", cached=len(r.prompt_ids) - 1)(r)
    answer = client.completions.create(model=MODEL, prompt=[[5] * 17, [6] * 33, [7]], extra_body={"n": 1})
    assert answer.usage.prompt_tokens_details.cached_tokens == 16 + 32


def test_a_salt_goes_with_every_choice(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    client.completions.create(model=MODEL, prompt=[[5], [6]], n=2, extra_body={"cache_salt": "東京"})
    assert [request.cache_salt for request in verifier.requests] == ["東京"] * 4
    client.completions.create(model=MODEL, prompt=[5])
    assert verifier.requests[-1].cache_salt is None


def test_sixteen_tokens_by_default(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    client.completions.create(model=MODEL, prompt="a")
    assert verifier.requests[0].params.max_tokens == 16


def test_fewer_by_default_where_the_context_ends(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    client.completions.create(model=MODEL, prompt=[5] * 195)
    assert verifier.requests[0].params.max_tokens == 5
