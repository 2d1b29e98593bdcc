"""The whole HTTP application under a real server, over a verifier that says what a test scripts."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from typing import Any

import tokenizers
import uvicorn
from tiny_tokenizers import BOS, CHATML, EOS, byte_level

from serving.api.app import create_app
from serving.config import RouterConfig, ServeConfig
from serving.errors import UnavailableError
from serving.router.service import Service
from serving.types import (
    FinishReason,
    GenerationRequest,
    ModelCard,
    SpeculationStats,
    TokenDelta,
    TokenLogprobs,
)

TOKENIZER = tokenizers.Tokenizer.from_buffer(byte_level())
EOS_ID = TOKENIZER.token_to_id(EOS)
MODEL = "tiny"
PATIENCE_S = 60.0  # until something counts as hanging, however busy the machine is
FOREVER_S = 600.0  # for a verifier to be silent: nobody waits for its end
CARD = ModelCard(
    name=MODEL,
    fingerprint="fp-1",
    max_model_len=200,
    vocab_size=TOKENIZER.get_vocab_size(),
    eos_token_ids=(EOS_ID,),
    tokenizer_json=byte_level(),
    chat_template=CHATML,
    bos_token=BOS,
    eos_token=EOS,
    created=1_700_000_000,
)

# What a verifier does next: send tokens, wait (seconds), or fail.
Event = TokenDelta | float | Exception
Script = Callable[[GenerationRequest], Iterable[Event]]


def encode(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False).ids


def says(text: str, *, by: int = 2, pause: float = 0.0, eos: bool = True, cached: int = 0) -> Script:
    """Answer with `text`, `by` tokens a step, then EOS; cut at max_tokens as an engine does.

    cached: tokens of the prompt that it finds in its prefix cache.
    The log-probability of a token is minus a hundredth of its id, and the likeliest tokens are 0, 1, ...
    """

    def script(request: GenerationRequest) -> Iterator[Event]:
        token_ids = encode(text) + [EOS_ID] * eos
        limit = request.params.max_tokens
        reason = FinishReason.STOP if eos and len(token_ids) <= limit else FinishReason.LENGTH
        token_ids = token_ids[:limit]
        stats = SpeculationStats()
        for start in range(0, len(token_ids), by):
            step = tuple(token_ids[start : start + by])
            stats.record(drafted=by, accepted=len(step) - 1, committed=len(step), offered=len(step) - 1)
            last = start + by >= len(token_ids)
            if pause:
                yield pause
            yield TokenDelta(
                request.request_id,
                step,
                reason if last else None,
                stats=stats,
                cached_tokens=cached,
                logprobs=told(request, step),
                prompt_logprobs=told(request, request.prompt_ids[1:])
                if told_of_prompt(request, start)
                else (),
            )

    return script


def told(request: GenerationRequest, token_ids: Iterable[int]) -> tuple[TokenLogprobs, ...]:
    if request.params.logprobs is None:
        return ()
    likeliest = tuple((token, -token / 100) for token in range(request.params.logprobs))
    return tuple(TokenLogprobs(-token / 100, likeliest) for token in token_ids)


def told_of_prompt(request: GenerationRequest, start: int) -> bool:
    return request.params.prompt_logprobs and start == 0


@dataclass
class ScriptedVerifier:
    """A `Backend`. It remembers what it was asked, and which requests were aborted."""

    card: ModelCard = CARD
    script: Script = field(default_factory=lambda: says("hello world"))
    up: bool = True
    requests: list[GenerationRequest] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)

    async def describe(self) -> ModelCard:
        await self.ping()
        return self.card

    async def ping(self) -> None:
        if not self.up:
            raise UnavailableError("no verifier is up")

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[TokenDelta, None]:
        self.requests.append(request)
        finished = False
        try:
            for event in self.script(request):
                if isinstance(event, float):
                    await asyncio.sleep(event)
                elif isinstance(event, Exception):
                    finished = True
                    raise copy(event)  # of which this frame does not know
                else:
                    finished = event.finish_reason is not None
                    yield event
        finally:
            if not finished:
                self.aborted.append(request.request_id)


@dataclass(frozen=True)
class Running:
    """A server on loopback."""

    url: str
    verifier: ScriptedVerifier


def config(**router: object) -> ServeConfig:
    """Requests wait until the service has connected, which a busy machine may take a while for."""
    settings = RouterConfig(**{"connect_wait_s": PATIENCE_S, **router})
    return ServeConfig(served_model_name=MODEL, router=settings)


@contextmanager
def serve(verifier: ScriptedVerifier | None = None, settings: ServeConfig | None = None) -> Iterator[Running]:
    verifier = verifier or ScriptedVerifier()
    app = create_app(Service(settings or config(), verifier))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    eventually(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Running(f"http://127.0.0.1:{port}", verifier)
    finally:
        server.should_exit = True
        thread.join(timeout=PATIENCE_S)


def leave(
    running: Running,
    path: str,
    body: Mapping[str, Any],
    once: Callable[[], bool],
    headers: Mapping[str, str] | None = None,
) -> None:
    """Send a request and go away without its answer, not before `once` holds."""
    connection = HTTPConnection(running.url.removeprefix("http://"))
    kind = {"Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(body), kind | dict(headers or {}))
    eventually(once)
    connection.close()


def eventually(condition: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    """Wait until `condition` holds; fail when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def without_template() -> ModelCard:
    return replace(CARD, chat_template=None)
