"""What is refused, and by which field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bedrock import Bedrock
from chat_lambda.chat_request import ChatRequest
from chat_lambda.errors import RequestError
from chat_lambda.tokens import estimated_tokens

USER = {"role": "user", "content": "Hi"}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"model": None}, "model"),
    ({"messages": None}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": ["Hi"]}, "messages[0]"),
    ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages[0].role"),
    ({"messages": [USER, {"role": "user", "content": ""}]}, "messages[1].content"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]}, "messages[0].content"),
    ({"messages": [USER | {"tool_calls": []}]}, "messages[0].tool_calls"),
    ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
    ({"messages": [{"role": "assistant", "content": "x"}, USER]}, "messages"),
    ({"messages": [USER, {"role": "assistant", "content": "x"}]}, "messages"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": True}, "max_tokens"),
    ({"max_completion_tokens": "5"}, "max_completion_tokens"),
    ({"max_tokens": 1, "max_completion_tokens": 2}, "max_completion_tokens"),
    ({"temperature": 1.5}, "temperature"),
    ({"temperature": float("nan")}, "temperature"),
    ({"top_p": "1"}, "top_p"),
    ({"n": 2}, "n"),
    ({"stop": [1]}, "stop"),
    ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
    ({"stream": 1}, "stream"),
    ({"stream_options": {"other": True}}, "stream_options"),
    ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
    ({"tools": []}, "tools"),
    ({"seed": 1}, "seed"),
]


@pytest.mark.parametrize(("change", "param"), WRONG, ids=[str(change) for change, _ in WRONG])
def test_the_field_is_named(change: dict[str, Any], param: str) -> None:
    body = {"model": "m", "messages": [USER]} | change
    with pytest.raises(RequestError) as error:
        ChatRequest.parse(json.dumps(body).encode())
    assert (error.value.param, error.value.status) == (param, 400)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff"])
def test_bodies_that_are_none(body: bytes) -> None:
    with pytest.raises(RequestError) as error:
        ChatRequest.parse(body)
    assert error.value.code == "invalid_json"


def test_null_is_as_if_it_were_not_there() -> None:
    parsed = ChatRequest.parse(
        b'{"model":"m","messages":[{"role":"user","content":"Hi"}],"tools":null,"n":1}'
    )
    assert (parsed.max_tokens, parsed.temperature, parsed.stream) == (None, None, False)


@pytest.mark.parametrize(
    ("change", "status", "code", "param"),
    [
        ({"model": "gpt-4"}, 404, "model_not_found", "model"),
        ({"messages": [{"role": "user", "content": "a" * 277}]}, 400, "context_length_exceeded", "messages"),
        (
            {"messages": [{"role": "user", "content": "About PROJECT  X"}]},
            400,
            "content_policy_violation",
            "messages",
        ),
        ({"seed": 7}, 400, "unsupported_parameter", "seed"),
    ],
)
def test_never_reaches_the_model(
    ask: Any, bedrock: Bedrock, change: dict[str, Any], status: int, code: str, param: str
) -> None:
    reply = ask(change)
    error = reply.json()["error"]
    assert (reply.status, error["code"], error["param"]) == (status, code, param)
    assert error["type"] == "invalid_request_error"
    assert bedrock.asked == []


def test_the_longest_prompt(ask: Any, bedrock: Bedrock) -> None:
    assert ask({"messages": [{"role": "user", "content": "a" * 276}]}).status == 200


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer k-123", "Basic k-1234", "k-1234"])
def test_without_a_key(ask: Any, bedrock: Bedrock, authorization: str) -> None:
    reply = ask(headers={"authorization": authorization})
    assert (reply.status, reply.json()["error"]["code"]) == (401, "invalid_api_key")
    assert reply.headers["WWW-Authenticate"] == "Bearer"
    assert bedrock.asked == []


@pytest.mark.parametrize(
    ("event", "status"), [({"path": "/v1/models"}, 404), ({"httpMethod": "GET"}, 405)], ids=str
)
def test_elsewhere(ask: Any, event: dict[str, Any], status: int) -> None:
    reply = ask(**event)
    assert reply.status == status
    assert reply.json()["error"]["message"]


# As the default model's tokenizer counts them, which knows little but English.
COUNTED = [
    ("The capital of France is Paris, which lies on the river Seine.", 15),
    ("Столица Франции — Париж, который стоит на реке Сене. " * 5, 192),
    ("3141592653589793" * 20, 320),
    ('{"min_worker_port": 11000, "max_worker_port": 11999}', 28),
]


@pytest.mark.parametrize(("text", "count"), COUNTED, ids=[text[:20] for text, _ in COUNTED])
def test_tokens_are_rather_over_than_underestimated(text: str, count: int) -> None:
    estimated = estimated_tokens([text])
    assert count <= estimated <= 2.5 * count


def test_empty_messages_have_tokens_too() -> None:
    assert estimated_tokens([""] * 3) == 24
