"""Whatever is wrong gets a 4xx in OpenAI's form that names the field, and the service stays up."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from http_harness import CARD, MODEL, PATIENCE_S, ScriptedVerifier, serve, without_template
from pydantic import ValidationError

from serving.api.requests import ChatCompletionRequest, TextCompletionRequest

HI = [{"role": "user", "content": "Hi"}]
CHAT = {"model": MODEL, "messages": HI}
TEXT = {"model": MODEL, "prompt": "Hi"}


def refused(
    response: httpx.Response, param: str | None, status: int = 400, code: str = "invalid_value"
) -> str:
    """Check the answer's form; returns the message."""
    assert response.headers["content-type"] == "application/json"
    assert set(response.json()) == {"error"}
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (response.status_code, error["param"], error["code"]) == (status, param, code), error
    assert error["type"] == "invalid_request_error"
    return error["message"]


def without(body: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != name}


@pytest.fixture(autouse=True)
def _still_up(http: httpx.Client, verifier: ScriptedVerifier) -> Any:
    yield
    assert verifier.requests == [], "nothing wrong may reach a verifier"
    assert http.post("/v1/chat/completions", json=CHAT).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"model": "tiny", "messages": [}',
        b'{"model": "\xff\xfe"}',
        b'{"model": "\\ud800"}',
        b"[" * 1000,
        b'{"seed": ' + b"1" * 5000 + b"}",
        b'\xef\xbb\xbf{"model": "tiny"}',
    ],
    ids=["empty", "open", "word", "syntax", "utf-8", "surrogate", "deep", "digits", "bom"],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_no_json(http: httpx.Client, path: str, body: bytes) -> None:
    refused(http.post(path, content=body), None, code="invalid_json")


@pytest.mark.parametrize("body", [b"[]", b"5", b"null", b'"text"'])
def test_no_object(http: httpx.Client, body: bytes) -> None:
    refused(http.post("/v1/chat/completions", content=body), None)


def test_the_content_type_may_be_missing(http: httpx.Client, verifier: ScriptedVerifier) -> None:
    assert http.post("/v1/chat/completions", content=json.dumps(CHAT).encode()).status_code == 200
    verifier.requests.clear()


@pytest.mark.parametrize("name", ["model", "messages"])
def test_missing_in_chat(http: httpx.Client, name: str) -> None:
    refused(http.post("/v1/chat/completions", json=without(CHAT, name)), name)


def test_missing_prompt(http: httpx.Client) -> None:
    refused(http.post("/v1/completions", json=without(TEXT, "prompt")), "prompt")


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"model": 5}, "model"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": ["Hi"]}, "messages.0"),
        ({"messages": [{"content": "Hi"}]}, "messages.0.role"),
        ({"messages": [{"role": "wizard", "content": "Hi"}]}, "messages.0.role"),
        ({"messages": [{"role": "tool", "content": "Hi"}]}, "messages.0.role"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [*HI, {"role": "user", "content": None}]}, "messages.1.content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0.text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
            "messages.0.content.0.type",
        ),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"top_k": 2.5}, "top_k"),
        ({"min_p": -0.1}, "min_p"),
        ({"min_p": 1.1}, "min_p"),
        ({"presence_penalty": 2.1}, "presence_penalty"),
        ({"frequency_penalty": -2.1}, "frequency_penalty"),
        ({"frequency_penalty": False}, "frequency_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"repetition_penalty": True}, "repetition_penalty"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5"),
        ({"logit_bias": {"5": "1"}}, "logit_bias.5"),
        ({"logit_bias": {"382": 1}}, "logit_bias"),
        ({"logit_bias": {"-1": 1}}, "logit_bias"),
        ({"logit_bias": {"05": 1}}, "logit_bias"),
        ({"logit_bias": {"the": 1}}, "logit_bias"),
        ({"logit_bias": {"9" * 5000: 1}}, "logit_bias"),
        ({"logit_bias": [[5, 1]]}, "logit_bias"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"min_tokens": 6, "max_tokens": 5}, "min_tokens"),
        ({"min_tokens": 65}, "min_tokens"),
        ({"min_tokens": 1, "stop_token_ids": [*range(382)]}, "stop_token_ids"),
        ({"ignore_eos": 1}, "ignore_eos"),
        ({"logprobs": 1}, "logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": False, "top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ({"seed": 2**63}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"n": 0}, "n"),
        ({"n": 5}, "n"),
        ({"stop": ""}, "stop"),
        ({"stop": [""]}, "stop.0"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"stop": "x" * 1025}, "stop"),
        ({"stop": ["a", "x" * 1025]}, "stop.1"),
        ({"stop": 5}, "stop"),
        ({"stop": ["a", 5]}, "stop.1"),
        ({"stop_token_ids": [382]}, "stop_token_ids"),
        ({"stop_token_ids": [-1]}, "stop_token_ids"),
        ({"stop_token_ids": ["a"]}, "stop_token_ids.0"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        (
            {"stream": True, "stream_options": {"continuous_usage_stats": True}},
            "stream_options.continuous_usage_stats",
        ),
        ({"user": 5}, "user"),
        ({"cache_salt": ""}, "cache_salt"),
        ({"priority": 2}, "priority"),
        ({"priority": -1}, "priority"),
        ({"prompt_cache_key": ""}, "prompt_cache_key"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": "5"}, "timeout_s"),
        ({"cache_salt": 5}, "cache_salt"),
        ({"num_speculative_tokens": -1}, "num_speculative_tokens"),
        ({"num_speculative_tokens": 256}, "num_speculative_tokens"),
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, dict) else value,
)
def test_wrong_value(http: httpx.Client, wrong: dict[str, Any], param: str) -> None:
    refused(http.post("/v1/chat/completions", json=CHAT | wrong), param)


@pytest.mark.parametrize(
    "wrong",
    [
        {"messages": [{}] * 100},
        {"messages": [{"role": "user", "content": [5] * 100}]},
        {"prompt": ["a"] + [5] * 100},
        {"prompt": [5] + ["a"] * 100},
        {"prompt": [[5], *["a"] * 100]},
        {"prompt": [["a"] * 100]},
        {"stop": [5] * 16},
        {"stop_token_ids": ["a"] * 100},
    ],
    ids=lambda wrong: json.dumps(wrong)[:40],
)
def test_a_list_is_read_up_to_its_first_wrong_item(wrong: dict[str, Any]) -> None:
    """A body of a few megabytes would otherwise make millions of errors: seconds, and gigabytes."""
    schema, right = (TextCompletionRequest, TEXT) if "prompt" in wrong else (ChatCompletionRequest, CHAT)
    with pytest.raises(ValidationError) as caught:
        schema.model_validate_json(json.dumps(right | wrong))
    assert caught.value.error_count() <= 2  # an empty message lacks two fields


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("name", ["temperature", "top_p", "min_p", "presence_penalty", "repetition_penalty"])
def test_not_a_finite_number(http: httpx.Client, name: str, literal: str) -> None:
    body = json.dumps(CHAT)[:-1] + f', "{name}": {literal}}}'
    refused(http.post("/v1/chat/completions", content=body.encode()), name)


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        ("", "prompt"),
        ([], "prompt"),
        ([""], "prompt"),
        ([[]], "prompt"),
        ([382], "prompt"),
        ([[5], [-1]], "prompt"),
        ([10**30], "prompt"),
        (5, "prompt"),
        (None, "prompt"),
        ({"text": "Hi"}, "prompt"),
        ([1, "a"], "prompt.1"),
        (["a", 1], "prompt.1"),
        ([[1], "a"], "prompt.1"),
        ([1.5], "prompt.0"),
        ([True], "prompt.0"),
        (["a"] * 5, "prompt"),
    ],
    ids=json.dumps,
)
def test_wrong_prompt(http: httpx.Client, prompt: Any, param: str) -> None:
    refused(http.post("/v1/completions", json=TEXT | {"prompt": prompt}), param)


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"logprobs": True}, "logprobs"),
        ({"logprobs": 6}, "logprobs"),
        ({"logprobs": -1}, "logprobs"),
        ({"echo": "yes"}, "echo"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1, "echo": True}, "max_tokens"),
        ({"max_tokens": 0, "echo": True, "min_tokens": 1}, "min_tokens"),
        ({"best_of": 0}, "best_of"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else value,
)
def test_wrong_value_in_text(http: httpx.Client, wrong: dict[str, Any], param: str) -> None:
    refused(http.post("/v1/completions", json=TEXT | wrong), param)


def test_unknown_model(http: httpx.Client) -> None:
    for path, body in (("/v1/chat/completions", CHAT), ("/v1/completions", TEXT)):
        message = refused(http.post(path, json=body | {"model": "gpt-9"}), "model", 404, "model_not_found")
        assert "gpt-9" in message


class TestContext:
    """The model's context is 200 tokens."""

    code = "context_length_exceeded"

    def test_chat_prompt_too_long(self, http: httpx.Client) -> None:
        messages = [{"role": "user", "content": "wxyz" * 100}]
        refused(
            http.post("/v1/chat/completions", json=CHAT | {"messages": messages}), "messages", code=self.code
        )

    @pytest.mark.parametrize("length", [200, 201])
    def test_text_prompt_too_long(self, http: httpx.Client, length: int) -> None:
        refused(http.post("/v1/completions", json=TEXT | {"prompt": [5] * length}), "prompt", code=self.code)

    @pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
    def test_too_many_tokens_wanted(self, http: httpx.Client, name: str) -> None:
        message = refused(http.post("/v1/chat/completions", json=CHAT | {name: 200}), name, code=self.code)
        assert "200" in message

    def test_exactly_full_is_fine(self, http: httpx.Client, verifier: ScriptedVerifier) -> None:
        body = TEXT | {"prompt": [5] * 150, "max_tokens": 50}
        assert http.post("/v1/completions", json=body).status_code == 200
        assert refused(
            http.post("/v1/completions", json=body | {"max_tokens": 51}), "max_tokens", code=self.code
        )
        verifier.requests.clear()


class TestBodyLimit:
    """8,192 bytes."""

    code = "body_too_large"

    def test_announced(self, http: httpx.Client) -> None:
        body = CHAT | {"messages": [{"role": "user", "content": "x" * 9000}]}
        refused(http.post("/v1/chat/completions", json=body), None, 413, self.code)

    def test_not_announced(self, http: httpx.Client) -> None:
        chunks = iter([b'{"model": "', *[b"x" * 1000] * 9])
        refused(http.post("/v1/chat/completions", content=chunks), None, 413, self.code)

    def test_nothing_is_read_of_a_body_that_is_announced_too_large(
        self, server: Any, http: httpx.Client
    ) -> None:
        import socket

        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\n\r\n"
            connection.sendall(head.encode())
            assert connection.recv(1000).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "not_found"),
        ("GET", "/", 404, "not_found"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
    ],
)
def test_unknown_routes(http: httpx.Client, method: str, path: str, status: int, code: str) -> None:
    refused(http.request(method, path), None, status, code)


def test_a_model_without_a_template() -> None:
    with (
        serve(ScriptedVerifier(card=without_template())) as running,
        httpx.Client(base_url=running.url, timeout=PATIENCE_S) as http,
    ):
        message = refused(http.post("/v1/chat/completions", json=CHAT), "messages")
        assert "no chat template" in message
        assert http.post("/v1/completions", json=TEXT).status_code == 200


def test_the_card_says_what_the_tests_assume() -> None:
    assert (CARD.vocab_size, CARD.max_model_len) == (382, 200)
