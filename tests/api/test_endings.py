"""Requests that end otherwise: the client leaves, or time runs out."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from http_harness import MODEL, Running, ScriptedVerifier, config, eventually, says, serve

from serving.types import TokenDelta

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize("n", [1, 3])
def test_leaving_a_stream_aborts(server: Running, verifier: ScriptedVerifier, n: int) -> None:
    verifier.script = says("the quick brown fox " * 3, by=1, pause=0.02)
    with (
        httpx.Client(base_url=server.url) as http,
        http.stream("POST", "/v1/chat/completions", json=CHAT | {"stream": True, "n": n}) as response,
    ):
        next(response.iter_lines())
    eventually(lambda: len(verifier.aborted) == n)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("n", [1, 3])
def test_leaving_before_the_first_token_aborts(
    server: Running, verifier: ScriptedVerifier, stream: bool, n: int
) -> None:
    verifier.script = lambda _: [60.0]
    with httpx.Client(base_url=server.url, timeout=0.3) as http, pytest.raises(httpx.ReadTimeout):
        http.post("/v1/chat/completions", json=CHAT | {"stream": stream, "n": n})
    eventually(lambda: len(verifier.aborted) == n)


@pytest.fixture(scope="module")
def hasty() -> Iterator[Running]:
    """A server whose requests may take 0.2 seconds."""
    with serve(settings=config(request_timeout_s=0.2)) as running:
        yield running


@pytest.mark.parametrize("stream", [True, False])
def test_no_time_for_the_first_token(hasty: Running, stream: bool) -> None:
    hasty.verifier.script, hasty.verifier.aborted = (lambda _: [60.0]), []
    response = httpx.post(f"{hasty.url}/v1/chat/completions", json=CHAT | {"stream": stream})
    assert response.status_code == 504
    assert response.json()["error"]["code"] == "timeout"
    assert len(hasty.verifier.aborted) == 1


def test_a_client_may_have_less_time_than_the_server(server: Running, verifier: ScriptedVerifier) -> None:
    verifier.script = lambda _: [60.0]
    response = httpx.post(f"{server.url}/v1/chat/completions", json=CHAT | {"timeout_s": 0.1})
    assert response.status_code == 504
    assert response.json()["error"]["message"] == "the request took longer than 0.1 s"


def test_no_time_in_mid_stream(hasty: Running) -> None:
    hasty.verifier.script = lambda r: [TokenDelta(r.request_id, (20,)), 60.0]
    hasty.verifier.aborted = []
    response = httpx.post(f"{hasty.url}/v1/chat/completions", json=CHAT | {"stream": True})
    assert response.status_code == 200
    *_, last, done = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert done == "[DONE]"
    assert json.loads(last)["error"]["code"] == "timeout"
    assert len(hasty.verifier.aborted) == 1
