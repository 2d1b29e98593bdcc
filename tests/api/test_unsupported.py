"""Nothing is silently ignored: do-nothing values pass, everything else is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from http_harness import MODEL
from pydantic import BaseModel

from serving.api.requests import ChatCompletionRequest, TextCompletionRequest, TokenizeRequest

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}
TEXT = {"model": MODEL, "prompt": "Hi"}

CHAT_NO_OPS: list[tuple[str, Any]] = [
    ("logprobs", False),
    ("top_logprobs", 0),
    ("response_format", {"type": "text"}),
    ("tools", []),
    ("tool_choice", "none"),
    ("parallel_tool_calls", True),
    ("store", False),
    ("metadata", None),
    ("service_tier", "auto"),
    ("modalities", ["text"]),
    ("skip_special_tokens", True),
    ("reasoning_effort", None),
    ("temperature", None),
    ("stop", None),
    ("stop", []),
    ("n", None),
    ("stream_options", None),
]
CHAT_REFUSED: list[tuple[str, Any]] = [
    ("response_format", {"type": "json_object"}),
    ("tools", [{"type": "function"}]),
    ("tool_choice", "auto"),
    ("store", True),
    ("metadata", {"a": "b"}),
    ("service_tier", "priority"),
    ("modalities", ["text", "audio"]),
    ("reasoning_effort", "high"),
    ("chat_template_kwargs", {"enable_thinking": False}),
    ("echo", True),
    ("best_of", 1),
    ("prompt", "Hi"),
    ("no_such_parameter", 1),
    ("no_such_parameter", None),
    ("temprature", 0),
]
TEXT_NO_OPS: list[tuple[str, Any]] = [("echo", False), ("best_of", 1), ("logprobs", None), ("suffix", None)]
TEXT_REFUSED: list[tuple[str, Any]] = [
    ("best_of", 2),
    ("suffix", "end"),
    ("tools", []),
    ("messages", []),
    ("max_completion_tokens", 5),
]


def name(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def check_refused(response: httpx.Response, param: str) -> None:
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["param"], error["code"]) == (param, "unsupported_parameter")
    assert param in error["message"]


@pytest.mark.parametrize(("param", "value"), CHAT_NO_OPS, ids=name)
def test_accepted_in_chat(http: httpx.Client, param: str, value: Any) -> None:
    response = http.post("/v1/chat/completions", json=CHAT | {param: value})
    assert response.status_code == 200, response.text


@pytest.mark.parametrize(("param", "value"), CHAT_REFUSED, ids=name)
def test_refused_in_chat(http: httpx.Client, param: str, value: Any) -> None:
    check_refused(http.post("/v1/chat/completions", json=CHAT | {param: value}), param)


@pytest.mark.parametrize(("param", "value"), TEXT_NO_OPS, ids=name)
def test_accepted_in_text(http: httpx.Client, param: str, value: Any) -> None:
    assert http.post("/v1/completions", json=TEXT | {param: value}).status_code == 200


@pytest.mark.parametrize(("param", "value"), TEXT_REFUSED, ids=name)
def test_refused_in_text(http: httpx.Client, param: str, value: Any) -> None:
    check_refused(http.post("/v1/completions", json=TEXT | {param: value}), param)


@pytest.mark.parametrize(
    ("field", "value"), [("tool_calls", [{"id": "1"}]), ("refusal", "no"), ("audio", {}), ("mood", "good")]
)
def test_refused_in_a_message(http: httpx.Client, field: str, value: Any) -> None:
    messages = [*CHAT["messages"], {"role": "assistant", "content": "Hello", field: value}]
    check_refused(
        http.post("/v1/chat/completions", json=CHAT | {"messages": messages}), f"messages.1.{field}"
    )


def test_refused_inside_an_object(http: httpx.Client) -> None:
    body = CHAT | {"stream": True, "stream_options": {"include_everything": True}}
    check_refused(http.post("/v1/chat/completions", json=body), "stream_options.include_everything")


@pytest.mark.parametrize("schema", [ChatCompletionRequest, TextCompletionRequest, TokenizeRequest])
def test_the_documentation_names_every_parameter(schema: type[BaseModel]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    common = {"model", "messages"}
    assert [name for name in schema.model_fields.keys() - common if f"`{name}" not in page] == []
