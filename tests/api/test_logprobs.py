"""Log-probabilities and echo, in OpenAI's shapes. The scripted verifier tells -id/100 of each token."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import openai
import pytest
from http_harness import CARD, EOS_ID, MODEL, TOKENIZER, ScriptedVerifier, config, encode, says, serve
from tiny_tokenizers import EOS, sentence_piece
from tokenizers import Tokenizer

from serving.types import FinishReason, TokenDelta, TokenLogprobs

HI: list[Any] = [{"role": "user", "content": "Hi"}]
IDS = encode("hello world")


def chat(client: openai.OpenAI, **params: Any) -> Any:
    return client.chat.completions.create(model=MODEL, messages=HI, logprobs=True, **params).choices[0]


def text(client: openai.OpenAI, prompt: Any = "the quick", **params: Any) -> Any:
    return client.completions.create(model=MODEL, prompt=prompt, **params).choices[0]


# ---- chat ----


def test_chat(client: openai.OpenAI) -> None:
    """S27: one entry per token that counts, and an empty list of others."""
    choice = chat(client, top_logprobs=0)
    assert choice.message.content == "hello world"
    content = choice.logprobs.content
    assert [entry.logprob for entry in content] == [-i / 100 for i in [*IDS, EOS_ID]]
    assert b"".join(bytes(entry.bytes) for entry in content[:-1]).decode() == "hello world"
    assert "".join(entry.token for entry in content) == "hello world" + EOS
    assert all(entry.top_logprobs == [] for entry in content)
    assert choice.logprobs.refusal is None


def test_the_likeliest_tokens(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    content = chat(client, top_logprobs=3).logprobs.content
    assert verifier.requests[0].params.logprobs == 3
    for entry in content:
        assert [top.logprob for top in entry.top_logprobs] == [0, -0.01, -0.02]
        assert [top.token for top in entry.top_logprobs] == [TOKENIZER.id_to_token(i) for i in range(3)]


def test_nothing_is_told_unasked(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HI)
    assert answer.choices[0].logprobs is None
    assert text(client).logprobs is None
    assert [request.params.logprobs for request in verifier.requests] == [None, None]


@pytest.mark.parametrize("by", [1, 3])
def test_a_chat_stream_tells_the_same(client: openai.OpenAI, verifier: ScriptedVerifier, by: int) -> None:
    verifier.script = says("Größe 🙃, the quick brown fox", by=by)
    whole = chat(client, top_logprobs=1, stop="brown")
    stream = client.chat.completions.create(
        model=MODEL, messages=HI, logprobs=True, top_logprobs=1, stop="brown", stream=True
    )
    choices = [chunk.choices[0] for chunk in stream]
    entries = [e for choice in choices if choice.logprobs for e in choice.logprobs.content]
    assert entries == whole.logprobs.content
    assert "".join(choice.delta.content or "" for choice in choices) == whole.message.content


def test_halves_of_characters(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    verifier.script = says("🙃")
    content = chat(client).logprobs.content[:-1]
    assert len(content) > 1
    assert b"".join(bytes(entry.bytes) for entry in content).decode() == "🙃"
    assert content[0].token.startswith("\\xf0")
    tokens = text(client, logprobs=0).logprobs.tokens[:-1]
    assert tokens[0].startswith("bytes:\\xf0")
    assert text(client, logprobs=0).logprobs.text_offset[:-1] == [0] * len(tokens)


@pytest.mark.parametrize("by", [1, 2, 100])
def test_tokens_text_and_logprobs_end_together(
    client: openai.OpenAI, verifier: ScriptedVerifier, by: int
) -> None:
    """S3: in the middle of a block, or over two steps."""
    words = "the quick brown fox jumps"
    verifier.script = says(words, by=by)
    answer = client.chat.completions.create(model=MODEL, messages=HI, logprobs=True, stop="own f")
    (choice,) = answer.choices
    needed = next(n for n in range(30) if "own f" in TOKENIZER.decode(encode(words)[:n]))
    assert choice.message.content == "the quick br"
    assert answer.usage.completion_tokens == needed
    assert [entry.logprob for entry in choice.logprobs.content] == [-i / 100 for i in encode(words)[:needed]]


def test_impossible_tokens_are_numbers_in_json(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    told = (TokenLogprobs(float("nan"), ((5, -float("inf")),)),)
    verifier.script = lambda r: [TokenDelta(r.request_id, (20,), FinishReason.LENGTH, logprobs=told)]
    (entry,) = chat(client, top_logprobs=1).logprobs.content
    assert (entry.logprob, entry.top_logprobs[0].logprob) == (-9999.0, -9999.0)


# ---- completions ----


def test_a_text_completion(client: openai.OpenAI) -> None:
    logprobs = text(client, logprobs=2).logprobs
    assert logprobs.token_logprobs == [-i / 100 for i in [*IDS, EOS_ID]]
    assert "".join(logprobs.tokens) == "hello world" + EOS
    lengths = [len(token) for token in logprobs.tokens]
    assert logprobs.text_offset == [sum(lengths[:i]) for i in range(len(lengths))]
    names = [TOKENIZER.id_to_token(i) for i in range(2)]
    for token, logprob, top in zip(
        logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, strict=True
    ):
        assert top == {names[0]: 0, names[1]: -0.01} | {token: logprob}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("logprobs", [None, 1])
@pytest.mark.parametrize("prompt", ["the quick", encode("the quick")], ids=["text", "ids"])
def test_echo(client: openai.OpenAI, prompt: Any, logprobs: int | None, stream: bool) -> None:
    answer = client.completions.create(
        model=MODEL, prompt=prompt, echo=True, logprobs=logprobs, stream=stream, max_tokens=4
    )
    choices = [chunk.choices[0] for chunk in answer] if stream else answer.choices
    said = TOKENIZER.decode(IDS[:4])
    assert "".join(choice.text for choice in choices) == "the quick" + said
    told = [choice.logprobs for choice in choices if choice.logprobs]
    if logprobs is None:
        assert told == []
        return
    ids = encode("the quick") + IDS[:4]
    assert [v for each in told for v in each.token_logprobs] == [None, *(-i / 100 for i in ids[1:])]
    assert told[0].top_logprobs[0] is None
    assert "".join(v for each in told for v in each.tokens) == "the quick" + said
    offsets = [v for each in told for v in each.text_offset]
    assert offsets == [len(TOKENIZER.decode(ids[:i])) for i in range(len(ids))]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("logprobs", [None, 1])
def test_the_prompt_alone(client: openai.OpenAI, logprobs: int | None, stream: bool) -> None:
    """How evaluation harnesses score texts: max_tokens 0, echo."""
    answer = client.completions.create(
        model=MODEL, prompt="the quick", echo=True, max_tokens=0, logprobs=logprobs, stream=stream
    )
    choices = [chunk.choices[0] for chunk in answer] if stream else answer.choices
    assert "".join(choice.text for choice in choices) == "the quick"
    assert choices[-1].finish_reason == "length"
    tokens = [token for choice in choices if choice.logprobs for token in choice.logprobs.tokens]
    assert len(tokens) == (0 if logprobs is None else len(encode("the quick")))
    if not stream:
        assert answer.usage.completion_tokens == 0
        assert answer.usage.prompt_tokens == len(encode("the quick"))


def test_echo_of_several_choices(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt=["the", "a"], n=2, echo=True, logprobs=0)
    assert [choice.text for choice in answer.choices] == [p + "hello world" for p in ("the", "the", "a", "a")]


def test_a_stop_string_does_not_match_in_the_prompt(client: openai.OpenAI) -> None:
    choice = text(client, prompt="the world", echo=True, stop="wor")
    assert choice.text == "the worldhello "


def test_best_of_is_n_or_nothing(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="a", n=2, best_of=2)
    assert len(answer.choices) == 2


def test_sentence_piece() -> None:
    """A space at the beginning stays behind an echo, bytes are bytes, special tokens have a name."""
    tokenizer = Tokenizer.from_buffer(sentence_piece())
    ids = tokenizer.encode("the a→", add_special_tokens=False).ids
    card = replace(CARD, tokenizer_json=sentence_piece(), eos_token_ids=(), vocab_size=400)

    def script(request: Any) -> Any:
        told = tuple(TokenLogprobs(-0.5, ()) for _ in ids)
        prompt = tuple(TokenLogprobs(-0.1, ()) for _ in request.prompt_ids[1:])
        yield TokenDelta("r", tuple(ids), FinishReason.LENGTH, logprobs=told, prompt_logprobs=prompt)

    with serve(ScriptedVerifier(card=card, script=script), config()) as running:
        client = openai.OpenAI(base_url=f"{running.url}/v1", api_key="none")
        choice = text(client, prompt="an", echo=True, logprobs=0)
    assert choice.text == "an the a→"
    assert choice.logprobs.tokens[0] == "<s>"
    assert choice.logprobs.tokens[-3:] == ["bytes:\\xe2", "bytes:\\x86", "bytes:\\x92"]
    assert choice.logprobs.token_logprobs[:2] == [None, -0.1]
    assert choice.logprobs.text_offset[-3:] == [8, 8, 8]
