"""Clients that keep the service busy while something is done to it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from benchmarks.chaos.asks import Ask
from benchmarks.chaos.client import Client
from benchmarks.chaos.replies import Reply

Found = TypeVar("Found")


class Answered(NamedTuple):
    """place: of the request among those that are asked. replies: more than one where the client insisted."""

    place: int
    replies: list[Reply]

    @property
    def reply(self) -> Reply:
        return self.replies[-1]


class Load:
    """`concurrency` clients that ask one request after the other.

    insist: ask again until there is a whole answer. least: so many requests are asked, however soon the
    disturbance is over; None: each once. answered: gets each answer as it is there.
    """

    def __init__(
        self,
        url: str,
        asks: Sequence[Ask],
        concurrency: int,
        answered: Callable[[Answered], object],
        *,
        insist: bool = False,
        least: int | None = None,
    ) -> None:
        self._url, self._asks, self._concurrency = url, asks, concurrency
        self._insist, self._answered = insist, answered
        self._least = len(asks) if least is None else least
        self._places = itertools.count()
        self._over = False

    async def run(self) -> None:
        """Ask at least so many."""
        self._over = True
        await self._run()

    async def during(self, disturbance: Awaitable[Found]) -> Found:
        """Ask on and on, after the last request the first again, until the disturbance is over."""
        clients = asyncio.create_task(self._run())
        try:
            return await disturbance
        finally:
            self._over = True
            await clients

    async def _run(self) -> None:
        async with Client(self._url) as client:
            await asyncio.gather(*(self._ask_on(client) for _ in range(self._concurrency)))

    async def _ask_on(self, client: Client) -> None:
        for sent in self._places:  # the clients share it
            if self._over and sent >= self._least:
                return
            place = sent % len(self._asks)
            ask = self._asks[place]
            replies = await client.insist(ask) if self._insist else [await client.ask(ask)]
            self._answered(Answered(place, replies))
