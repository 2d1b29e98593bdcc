"""Server-sent events."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest
from http_harness import MODEL, TOKENIZER, ScriptedVerifier, encode, says

from serving.errors import ContextLengthError, GenerationError, OverloadedError, UnavailableError
from serving.types import FinishReason, TokenDelta

HI = [{"role": "user", "content": "Hi"}]
CHAT = {"model": MODEL, "messages": HI, "stream": True}


def events(response: httpx.Response) -> list[Any]:
    """The data of each event; the last must be [DONE]."""
    assert response.headers["content-type"].startswith("text/event-stream")
    *data, done = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert done == "[DONE]"
    return [json.loads(event) for event in data]


def test_chunks_of_a_chat(http: httpx.Client) -> None:
    chunks = events(http.post("/v1/chat/completions", json=CHAT))
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == "hello world"
    assert [c["choices"][0]["finish_reason"] for c in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert not any("usage" in chunk for chunk in chunks)


def test_statistics_are_in_the_last_chunk(http: httpx.Client) -> None:
    chunks = events(http.post("/v1/chat/completions", json=CHAT | {"seed": 9}))
    assert chunks[-1]["speculation"]["seed"] == 9
    assert chunks[-1]["speculation"]["steps"] > 0
    assert not any("speculation" in chunk for chunk in chunks[:-1])


def test_usage_is_the_true_count_not_the_number_of_chunks(
    client: openai.OpenAI, verifier: ScriptedVerifier
) -> None:
    verifier.script = says("the quick brown fox jumps", by=4, cached=16)
    stream = client.chat.completions.create(
        model=MODEL, messages=HI, stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = list(stream)
    assert last.usage.prompt_tokens_details.cached_tokens == 16
    assert all(chunk.usage is None and len(chunk.choices) == 1 for chunk in chunks)
    assert last.choices == []
    assert last.usage.completion_tokens == len(encode("the quick brown fox jumps")) + 1
    assert last.usage.total_tokens == last.usage.prompt_tokens + last.usage.completion_tokens
    assert last.speculation["steps"] > 0


def test_every_chunk_counts_so_far_where_asked_for(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    verifier.script = says("the quick brown fox jumps", by=4)
    options = {"include_usage": True, "continuous_usage_stats": True}
    stream = client.chat.completions.create(model=MODEL, messages=HI, stream=True, stream_options=options)
    usages = [chunk.usage for chunk in stream]
    counts = [usage.completion_tokens for usage in usages]
    tokens = len(encode("the quick brown fox jumps")) + 1
    assert counts == sorted(counts)
    assert set(counts) == {*range(4, tokens, 4), tokens}
    assert all(usage.total_tokens == usage.prompt_tokens + usage.completion_tokens for usage in usages)


def test_a_text_completion(client: openai.OpenAI) -> None:
    stream = client.completions.create(
        model=MODEL, prompt="say", stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = list(stream)
    assert "".join(chunk.choices[0].text for chunk in chunks) == "hello world"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert {chunk.object for chunk in chunks} == {"text_completion"}
    assert last.usage.completion_tokens == len(encode("hello world")) + 1


@pytest.mark.parametrize("text", ["Größe 東京 🙃👩‍👩‍👧", 'a\n\nb "quoted" \\ \x00\u2028'])
def test_the_pieces_are_the_whole_text(client: openai.OpenAI, verifier: ScriptedVerifier, text: str) -> None:
    verifier.script = says(text, by=1)
    whole = client.chat.completions.create(model=MODEL, messages=HI).choices[0].message.content
    stream = client.chat.completions.create(model=MODEL, messages=HI, stream=True)
    pieces = [chunk.choices[0].delta.content or "" for chunk in stream]
    assert "".join(pieces) == whole == text
    assert not any("\ufffd" in piece for piece in pieces)


def test_several_choices_interleave(client: openai.OpenAI, verifier: ScriptedVerifier) -> None:
    words = ["the quick brown fox", "over the lazy dog"]
    verifier.script = lambda request: says(words[request.choice_index], pause=0.01)(request)
    texts, reasons, order = ["", ""], {}, []
    for chunk in client.chat.completions.create(model=MODEL, messages=HI, n=2, stream=True):
        (choice,) = chunk.choices
        texts[choice.index] += choice.delta.content or ""
        order.append(choice.index)
        if choice.finish_reason:
            reasons[choice.index] = choice.finish_reason
    assert texts == words
    assert reasons == {0: "stop", 1: "stop"}
    assert order != sorted(order)


@pytest.mark.parametrize("by", [1, 2, 50])
def test_a_stop_string_over_two_chunks_is_never_sent(
    client: openai.OpenAI, verifier: ScriptedVerifier, by: int
) -> None:
    verifier.script = says("the quick brown fox", by=by)
    stream = client.chat.completions.create(
        model=MODEL, messages=HI, stream=True, stop="k br", stream_options={"include_usage": True}
    )
    *chunks, last = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "the quic"
    assert chunks[-1].choices[0].finish_reason == "stop"
    ids = encode("the quick brown fox")
    needed = next(n for n in range(len(ids)) if "k br" in TOKENIZER.decode(ids[:n]))
    assert last.usage.completion_tokens == needed
    assert len(verifier.aborted) == (by < len(ids)), "nothing is left to abort in the last step"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnavailableError("gone"), 503),
        (OverloadedError("full"), 429),
        (GenerationError("broken"), 500),
        (ContextLengthError("too long", "messages"), 400),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_a_failure_before_the_first_token_has_its_status(
    http: httpx.Client, verifier: ScriptedVerifier, error: Exception, status: int, stream: bool
) -> None:
    verifier.script = lambda _: [error]
    response = http.post("/v1/chat/completions", json=CHAT | {"stream": stream})
    assert response.status_code == status
    assert response.json()["error"]["message"] == str(error)
    assert ("retry-after" in response.headers) == (status in (429, 503)), "when to try again"


def test_a_failure_after_it_is_an_error_event(http: httpx.Client, verifier: ScriptedVerifier) -> None:
    verifier.script = lambda r: [
        TokenDelta(r.request_id, (20, 21)),
        UnavailableError("the verifier was lost"),
    ]
    response = http.post("/v1/chat/completions", json=CHAT)
    assert response.status_code == 200
    *chunks, last = events(response)
    assert chunks
    assert last == {
        "error": {
            "message": "the verifier was lost",
            "type": "server_error",
            "param": None,
            "code": "unavailable",
        }
    }
    assert not any(chunk["choices"][0]["finish_reason"] for chunk in chunks)


def test_the_openai_client_raises_on_an_error_event(
    client: openai.OpenAI, verifier: ScriptedVerifier
) -> None:
    verifier.script = lambda r: [
        TokenDelta(r.request_id, (20,)),
        TokenDelta(r.request_id, (), FinishReason.ERROR, "the logits are not finite"),
    ]
    with pytest.raises(openai.APIError, match="the logits are not finite"):
        list(client.chat.completions.create(model=MODEL, messages=HI, stream=True))


def test_a_bug_in_mid_stream_says_no_more_than_that(http: httpx.Client, verifier: ScriptedVerifier) -> None:
    verifier.script = lambda r: [TokenDelta(r.request_id, (20,)), KeyError("secret")]
    *_, last = events(http.post("/v1/chat/completions", json=CHAT))
    assert last["error"]["message"] == "internal error"
