"""A client that asks over HTTP and writes down what it gets, failures among it."""

from __future__ import annotations

import asyncio
from time import perf_counter
from types import TracebackType
from typing import Any, Self

import httpx

from benchmarks.chaos.asks import Ask
from benchmarks.chaos.replies import Reply
from benchmarks.errors import BenchmarkError
from benchmarks.over_http import events

TIMEOUT_S = 180.0  # longer than a request waits for another verifier
RETRY_PAUSE_S = 0.2
RETRIES_FOR_S = 120.0
PATH = "/v1/completions"


class Client:
    """An asynchronous context manager. Connections are not kept: a proxy's dead ones would be used again."""

    def __init__(self, url: str) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._http = httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S, limits=limits, trust_env=False)

    async def __aenter__(self) -> Self:
        models = (await self._http.get("/v1/models")).json()
        self._model = models["data"][0]["id"]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def ask(self, ask: Ask) -> Reply:
        """Whatever goes wrong is the reply's error."""
        reply = Reply(ask.body.get("n", 1), perf_counter())
        body = {**ask.body, "model": self._model}
        try:
            await (self._stream(body, reply) if ask.streamed else self._whole(body, reply))
        except (httpx.HTTPError, BenchmarkError) as error:
            reply.error = f"{type(error).__name__}: {error}"
        reply.close()
        return reply

    async def insist(self, ask: Ask) -> list[Reply]:
        """Ask the same, seed and all, until there is a whole answer; it is the last of what is returned."""
        end = perf_counter() + RETRIES_FOR_S
        replies = [await self.ask(ask)]
        while not replies[-1].complete and perf_counter() < end:
            await asyncio.sleep(RETRY_PAUSE_S)
            replies.append(await self.ask(ask))
        return replies

    async def _stream(self, body: dict[str, Any], reply: Reply) -> None:
        async with self._http.stream("POST", PATH, json=body) as response:
            if response.status_code != 200:
                await response.aread()
            _check(response)
            async for event in events(response):
                reply.take(event, perf_counter())

    async def _whole(self, body: dict[str, Any], reply: Reply) -> None:
        response = await self._http.post(PATH, json=body)
        _check(response)
        reply.take(response.json(), perf_counter())


def _check(response: httpx.Response) -> None:
    """Raises BenchmarkError with the service's own words."""
    if response.status_code != 200:
        raise BenchmarkError(f"{response.status_code}: {response.text[:300]}")
