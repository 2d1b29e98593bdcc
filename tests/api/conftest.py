"""A running server for each test module, and clients for it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import openai
import pytest
from http_harness import PATIENCE_S, Running, ScriptedVerifier, config, serve


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serve(settings=config(max_body_bytes=8192, max_choices=4, default_max_tokens=64)) as running:
        yield running


@pytest.fixture
def verifier(server: Running) -> Iterator[ScriptedVerifier]:
    """The module's verifier, with a clean memory and the default script."""
    fresh = ScriptedVerifier()
    server.verifier.__dict__.update(fresh.__dict__)
    yield server.verifier
    server.verifier.__dict__.update(fresh.__dict__)


@pytest.fixture
def http(server: Running, verifier: ScriptedVerifier) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=PATIENCE_S) as client:
        yield client


@pytest.fixture
def client(server: Running, verifier: ScriptedVerifier) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=PATIENCE_S
    ) as client:
        yield client
