"""Request ids and log lines."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from http_harness import FOREVER_S, MODEL, Running, ScriptedVerifier, eventually, leave, says

from serving.errors import UnavailableError
from serving.logs import JsonFormatter
from serving.types import TokenDelta

SECRET, ANSWER = "zebra", "the lazy dog"
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": SECRET}]}


class Log:
    def __init__(self) -> None:
        self.stream = io.StringIO()

    def line(self, request_id: str) -> dict[str, Any]:
        """The one line about a request; it is written just after the response."""
        eventually(lambda: request_id in self.stream.getvalue())
        lines = map(json.loads, self.stream.getvalue().splitlines())
        (line,) = [line for line in lines if line.get("request_id") == request_id]
        return line


@pytest.fixture
def log() -> Iterator[Log]:
    captured = Log()
    handler = logging.StreamHandler(captured.stream)
    handler.setFormatter(JsonFormatter())
    package = logging.getLogger("serving")
    level = package.level
    package.addHandler(handler)
    package.setLevel("INFO")
    yield captured
    package.removeHandler(handler)
    package.setLevel(level)


def test_a_given_id_comes_back(http: httpx.Client) -> None:
    for path in ("/health", "/v1/models", "/v1/nothing"):
        assert http.get(path, headers={"X-Request-Id": "my-id-1"}).headers.get_list("x-request-id") == [
            "my-id-1"
        ]


def test_an_id_is_made(http: httpx.Client) -> None:
    ids = {http.get("/health").headers["x-request-id"] for _ in range(2)}
    assert len(ids) == 2


@pytest.mark.parametrize("wrong", ["", "x" * 129, "with space", "tab\there", "ü".encode("latin-1")])
def test_an_unprintable_or_long_id_is_refused(http: httpx.Client, wrong: str | bytes) -> None:
    response = http.get("/v1/models", headers={"X-Request-Id": wrong})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "X-Request-Id"
    assert response.headers["x-request-id"].isalnum()


def test_errors_and_streams_carry_it(http: httpx.Client, verifier: ScriptedVerifier) -> None:
    headers = {"X-Request-Id": "abc"}
    bad = http.post("/v1/chat/completions", content=b"{", headers=headers)
    assert (bad.status_code, bad.headers["x-request-id"]) == (400, "abc")
    verifier.script = lambda _: [KeyError("bug")]
    broken = http.post("/v1/chat/completions", json=CHAT, headers=headers)
    assert (broken.status_code, broken.headers["x-request-id"]) == (500, "abc")
    assert broken.json()["error"]["message"] == "internal error"
    verifier.script = says("hello")
    stream = http.post("/v1/chat/completions", json=CHAT | {"stream": True}, headers=headers)
    assert stream.headers["x-request-id"] == "abc"


@pytest.mark.parametrize("stream", [True, False])
def test_the_line_of_a_request(
    http: httpx.Client, verifier: ScriptedVerifier, log: Log, stream: bool
) -> None:
    verifier.script = says(ANSWER)
    body = CHAT | {"stream": stream, "stop": ["zeppelin"], "user": "somebody"}
    http.post("/v1/chat/completions", json=body, headers={"X-Request-Id": "r-1"})
    line = log.line("r-1")
    assert (line["level"], line["status"], line["path"]) == ("INFO", 200, "/v1/chat/completions")
    assert line["finish_reasons"] == ["stop"]
    assert line["completion_id"].startswith("chatcmpl-")
    assert line["prompt_tokens"] > 0
    assert line["completion_tokens"] > 1
    assert line["steps"] > 0
    assert line["draft_tokens"] >= line["accepted_tokens"] > 0
    assert 0 < line["ttft_s"] <= line["duration_s"]


def test_prompts_and_outputs_are_never_logged(
    http: httpx.Client, verifier: ScriptedVerifier, log: Log
) -> None:
    verifier.script = says(ANSWER)
    http.post("/v1/chat/completions", json=CHAT | {"stop": SECRET})
    http.post("/v1/chat/completions", json=CHAT | {"model": SECRET})
    http.post("/v1/chat/completions", json=CHAT | {"temperature": SECRET})
    http.post("/v1/chat/completions", content=f'{{"messages": {SECRET}'.encode())
    http.post("/v1/completions", json={"model": MODEL, "prompt": SECRET}, headers={"X-Request-Id": "last"})
    log.line("last")
    assert SECRET not in log.stream.getvalue()
    assert ANSWER not in log.stream.getvalue()


def test_lines_of_failures_name_code_and_field(
    http: httpx.Client, verifier: ScriptedVerifier, log: Log
) -> None:
    http.post("/v1/chat/completions", json=CHAT | {"temperature": 9}, headers={"X-Request-Id": "bad"})
    line = log.line("bad")
    assert (line["status"], line["error"], line["param"]) == (400, "invalid_value", "temperature")

    verifier.script = lambda r: [TokenDelta(r.request_id, (20, 21)), UnavailableError("lost")]
    http.post("/v1/chat/completions", json=CHAT | {"stream": True}, headers={"X-Request-Id": "lost"})
    line = log.line("lost")
    assert (line["status"], line["error"], line["completion_tokens"]) == (200, "unavailable", 2)


def test_the_line_of_a_client_that_left(server: Running, verifier: ScriptedVerifier, log: Log) -> None:
    verifier.script = lambda _: [FOREVER_S]
    name = {"X-Request-Id": "gone"}
    leave(server, "/v1/chat/completions", CHAT, once=lambda: len(verifier.requests) == 1, headers=name)
    assert log.line("gone")["status"] == 499


def test_bugs_are_logged_with_their_place(http: httpx.Client, verifier: ScriptedVerifier, log: Log) -> None:
    verifier.script = lambda _: [KeyError("bug")]
    http.post("/v1/chat/completions", json=CHAT, headers={"X-Request-Id": "bug"})
    eventually(lambda: log.stream.getvalue().count('"request_id": "bug"') == 2)
    first = json.loads(log.stream.getvalue().splitlines()[0])
    assert first["level"] == "ERROR"
    assert "KeyError" in first["exception"]
