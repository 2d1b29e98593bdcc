"""Requests that end otherwise: the client leaves, or time runs out."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from http_harness import (
    FOREVER_S,
    MODEL,
    PATIENCE_S,
    Running,
    ScriptedVerifier,
    config,
    eventually,
    leave,
    serve,
)

from serving.types import TokenDelta

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize("n", [1, 3])
def test_leaving_a_stream_aborts(server: Running, verifier: ScriptedVerifier, n: int) -> None:
    verifier.script = lambda r: [TokenDelta(r.request_id, (20,)), FOREVER_S]
    with (
        httpx.Client(base_url=server.url, timeout=PATIENCE_S) as http,
        http.stream("POST", "/v1/chat/completions", json=CHAT | {"stream": True, "n": n}) as response,
    ):
        next(response.iter_lines())
        eventually(lambda: len(verifier.requests) == n)
    eventually(lambda: len(verifier.aborted) == n)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("n", [1, 3])
def test_leaving_before_the_first_token_aborts(
    server: Running, verifier: ScriptedVerifier, stream: bool, n: int
) -> None:
    verifier.script = lambda _: [FOREVER_S]
    body = CHAT | {"stream": stream, "n": n}
    leave(server, "/v1/chat/completions", body, once=lambda: len(verifier.requests) == n)
    eventually(lambda: len(verifier.aborted) == n)


@pytest.mark.parametrize("stream", [True, False])
def test_no_time_for_the_first_token(stream: bool) -> None:
    with serve(ScriptedVerifier(script=lambda _: [FOREVER_S]), config(request_timeout_s=0.2)) as hasty:
        response = post(hasty, {"stream": stream})
    assert response.status_code == 504
    assert response.json()["error"]["code"] == "timeout"
    # A machine may be so busy that time is up before the verifier is asked.
    assert hasty.verifier.aborted == [request.request_id for request in hasty.verifier.requests]


def post(server: Running, fields: dict[str, Any]) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/chat/completions", json=CHAT | fields, timeout=PATIENCE_S)


def test_a_client_may_have_less_time_than_the_server(server: Running, verifier: ScriptedVerifier) -> None:
    verifier.script = lambda _: [FOREVER_S]
    response = post(server, {"timeout_s": 0.1})
    assert response.status_code == 504
    assert response.json()["error"]["message"] == "the request took longer than 0.1 s"


def test_no_time_in_mid_stream(server: Running, verifier: ScriptedVerifier) -> None:
    verifier.script = lambda r: [TokenDelta(r.request_id, (20,)), FOREVER_S]
    response = post(server, {"stream": True, "timeout_s": 2.0})  # the first token has to be in time
    assert response.status_code == 200
    *_, last, done = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert done == "[DONE]"
    assert json.loads(last)["error"]["code"] == "timeout"
    assert len(verifier.aborted) == 1
