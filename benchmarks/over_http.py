"""The whole service, asked over HTTP as a client would: streams of server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from types import TracebackType
from typing import Any, Self

import httpx

from benchmarks.answers import Answer, Prompt, Snapshot, Wave, Window
from benchmarks.errors import BenchmarkError
from benchmarks.stack import Stack
from serving.types import SpeculationStats

TIMEOUT_S = 600.0


class OverHttp:
    """A System, and a context manager that closes its connections."""

    def __init__(self, stack: Stack, max_tokens: int) -> None:
        self._stack = stack
        self._max_tokens = max_tokens
        self._loop = asyncio.Runner()
        self._client = httpx.AsyncClient(
            base_url=stack.url, timeout=TIMEOUT_S, limits=httpx.Limits(max_connections=None), trust_env=False
        )
        self._model = self._loop.run(self._first_model())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self._client.aclose())
        self._loop.close()

    def run(self, prompts: Sequence[Prompt], num_speculative_tokens: int | None) -> Wave:
        return self._loop.run(self._run(prompts, num_speculative_tokens))

    async def _run(self, prompts: Sequence[Prompt], num_speculative_tokens: int | None) -> Wave:
        wave = _Wave(perf_counter(), len(prompts), self._stack)
        bodies = [self._body(prompt, num_speculative_tokens) for prompt in prompts]
        answers = await asyncio.gather(*(self._answer(body, wave) for body in bodies))
        return Wave(tuple(answers), wave.window)

    def _body(self, prompt: Prompt, num_speculative_tokens: int | None) -> dict[str, Any]:
        body = {
            "model": self._model,
            "prompt": list(prompt),
            "max_tokens": self._max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if num_speculative_tokens is not None:
            body["num_speculative_tokens"] = num_speculative_tokens
        return body

    async def _answer(self, body: dict[str, Any], wave: _Wave) -> Answer:
        text, tail = [], None
        async with self._client.stream("POST", "/v1/completions", json=body) as response:
            if response.status_code != 200:
                raise BenchmarkError(f"{response.status_code}: {(await response.aread()).decode()}")
            first_s = perf_counter() - wave.start  # headers are sent with the first token
            await wave.has_begun()
            async for event in events(response):
                text += [choice["text"] for choice in event["choices"]]
                tail = event
        last_s = perf_counter() - wave.start
        await wave.has_ended()
        if tail is None or not tail.get("usage"):
            raise BenchmarkError("a stream ended without a count of its tokens")
        tokens = tail["usage"]["completion_tokens"]
        return Answer("".join(text), None, tokens, first_s, last_s, _stats(tail["speculation"]))

    async def _first_model(self) -> str:
        response = await self._client.get("/v1/models")
        name: str = response.json()["data"][0]["id"]
        return name


@dataclass(slots=True)
class _Wave:
    """Asks for the engine's counters when the last answer has begun and when the first has ended."""

    start: float
    size: int
    stack: Stack
    begun: int = 0
    ended: int = 0
    opened: Snapshot | None = None
    window: Window | None = None

    async def has_begun(self) -> None:
        self.begun += 1
        if self.size > 1 and self.begun == self.size and not self.ended:
            self.opened = await self._snapshot()

    async def has_ended(self) -> None:
        self.ended += 1
        if self.ended == 1 and self.opened is not None:
            self.window = Window.between(self.opened, await self._snapshot())

    async def _snapshot(self) -> Snapshot:
        counters = await asyncio.to_thread(self.stack.counters)
        return Snapshot(perf_counter(), counters)


async def events(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """A stream's, without the end mark. Raises BenchmarkError when one of them is an error."""
    async for line in _lines(response):
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line.removeprefix(b"data: "))
        if "error" in event:
            raise BenchmarkError(f"a stream failed: {event['error']['message']}")
        yield event


async def _lines(response: httpx.Response) -> AsyncIterator[bytes]:
    """As server-sent events have them. httpx would also end a line at characters that a text may contain."""
    rest = b""
    async for chunk in response.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


def _stats(speculation: dict[str, Any]) -> SpeculationStats | None:
    if speculation["steps"] is None:
        return None
    return SpeculationStats(
        steps=speculation["steps"],
        committed_tokens=round(speculation["tau"] * speculation["steps"]),
        draft_tokens=speculation["draft_tokens"],
        accepted_tokens=speculation["accepted_tokens"],
    )
