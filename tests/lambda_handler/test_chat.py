"""Answers of the function of the small size, through Lambda's runtime API."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from bedrock import Bedrock, Refusal
from chat_lambda.settings import Settings
from gateway import PATIENCE_S, Gateway

MODEL = "amazon.nova-micro-v1:0"


def said(answer: dict[str, Any]) -> str:
    return str(answer["choices"][0]["message"]["content"])


def test_an_answer_as_openai_writes_it(ask: Any, bedrock: Bedrock) -> None:
    reply = ask(
        {
            "messages": [
                {"role": "system", "content": "Be kind."},
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "you"}],
                },
                {"role": "user", "content": "!"},
            ],
            "max_tokens": 5,
            "temperature": 0.5,
            "top_p": 0.9,
            "stop": "\n",
        }
    )
    answer = reply.json()
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/json")
    assert said(answer) == "Hello there"
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"] == {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    assert (answer["object"], answer["model"]) == ("chat.completion", MODEL)
    assert bedrock.paths == [f"/model/{MODEL}/converse"]
    assert bedrock.asked == [
        {
            "messages": [{"role": "user", "content": [{"text": "Hi\nyou\n!"}]}],
            "system": [{"text": "Be kind."}],
            "inferenceConfig": {"maxTokens": 5, "temperature": 0.5, "topP": 0.9, "stopSequences": ["\n"]},
        }
    ]


def test_an_encoded_body(ask: Any, bedrock: Bedrock) -> None:
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "Grüezi"}]})
    reply = ask(isBase64Encoded=True, raw=base64.b64encode(body.encode()).decode())
    assert said(reply.json()) == "Hello there"
    assert bedrock.asked[0]["messages"][0]["content"] == [{"text": "Grüezi"}]


@pytest.mark.parametrize(
    ("reason", "told"), [("max_tokens", "length"), ("guardrail_intervened", "content_filter")]
)
def test_why_it_ended(ask: Any, bedrock: Bedrock, reason: str, told: str) -> None:
    bedrock.stop_reason = reason
    assert ask().json()["choices"][0]["finish_reason"] == told


def test_texts_arrive_while_the_model_writes(ask: Any, bedrock: Bedrock, gateway: Gateway) -> None:
    bedrock.hold.clear()
    reply = ask({"stream": True})
    received = b""
    for chunk in reply.chunks():
        received += chunk
        if b'"Hello"' in received and not bedrock.hold.is_set():
            assert b"there" not in received
            bedrock.hold.set()  # only now does the model go on
    assert b'" there"' in received
    assert reply.headers["Content-Type"] == "text/event-stream"
    assert gateway.modes[-1] == "streaming"


def test_a_stream_as_openai_writes_it(ask: Any, bedrock: Bedrock) -> None:
    *chunks, usage, done = ask({"stream": True, "stream_options": {"include_usage": True}}).events()
    assert [c["choices"][0]["delta"] for c in chunks] == [
        {"role": "assistant", "content": ""},
        {"content": "Hello"},
        {"content": " there"},
        {},
    ]
    assert [c["choices"][0]["finish_reason"] for c in chunks] == [None, None, None, "stop"]
    assert len({c["id"] for c in chunks}) == 1
    assert (usage["choices"], usage["usage"]["total_tokens"], done) == ([], 9, "[DONE]")


def test_a_stream_that_breaks_off_says_so(ask: Any, bedrock: Bedrock) -> None:
    bedrock.breaks_off = "throttlingException"
    reply = ask({"stream": True})
    *_, error, done = reply.events()
    assert reply.status == 200
    assert (error["error"]["code"], error["error"]["message"]) == ("rate_limit_exceeded", "Bedrock: too slow")
    assert done == "[DONE]"
    assert said(ask().json()) == "Hello there"  # the function goes on


REFUSALS = [
    (Refusal(429, "ThrottlingException", "slow down"), 429, "rate_limit_exceeded"),
    (Refusal(400, "ValidationException", "too long"), 400, "invalid_value"),
    (Refusal(403, "AccessDeniedException", "no"), 500, "bad_configuration"),
    (Refusal(503, "ServiceUnavailableException", "later"), 503, "unavailable"),
    (Refusal(424, "ModelErrorException", "odd"), 502, "bad_gateway"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("refusal", "status", "code"), REFUSALS, ids=[r[0].name for r in REFUSALS])
def test_what_bedrock_refuses(
    ask: Any, bedrock: Bedrock, refusal: Refusal, status: int, code: str, stream: bool
) -> None:
    """Before the first text a stream has no status yet, so it gets the right one."""
    bedrock.refusal = refusal
    reply = ask({"stream": stream})
    error = reply.json()["error"]
    assert (reply.status, error["code"], error["message"]) == (status, code, f"Bedrock: {refusal.message}")


def test_pages_of_allowed_origins(ask: Any, bedrock: Bedrock) -> None:
    origin = "https://chat.example.com"
    asked = ask(httpMethod="OPTIONS", headers={"origin": origin})
    assert (asked.status, list(asked.chunks())) == (204, [])
    assert asked.headers["Access-Control-Allow-Origin"] == origin
    assert "Authorization" in asked.headers["Access-Control-Allow-Headers"]
    answer = ask(headers={"origin": origin})
    assert (answer.headers["Access-Control-Allow-Origin"], said(answer.json())) == (origin, "Hello there")
    other = ask(headers={"origin": "https://elsewhere.example.com"})
    assert "Access-Control-Allow-Origin" not in other.headers
    other.json()


def test_what_is_not_set_is_said_at_start(
    environment: dict[str, str], runtime_api: str, gateway: Gateway, start: Callable[[dict[str, str]], int]
) -> None:
    del environment["CANOPY_MODEL_ID"]
    assert start(environment | {"AWS_LAMBDA_RUNTIME_API": runtime_api}) == 1
    assert gateway.init_errors.get(timeout=PATIENCE_S)["errorMessage"] == "CANOPY_MODEL_ID is not set"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("CANOPY_CACHE_TTL_S", "soon", "CANOPY_CACHE_TTL_S: 'soon' is no whole number above 0"),
        ("CANOPY_FORBIDDEN_PATTERNS", '["("]', "CANOPY_FORBIDDEN_PATTERNS: '(' is no regular expression"),
        ("CANOPY_ALLOWED_ORIGINS", "x", "CANOPY_ALLOWED_ORIGINS: no JSON"),
    ],
)
def test_settings_that_are_wrong(environment: dict[str, str], name: str, value: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Settings.load(environment | {name: value})
