"""Requests that no verifier has taken yet: how many may wait, how long, and who goes first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from serving.errors import OverloadedError, UnavailableError
from serving.metrics import RouterMetrics
from serving.types import GenerationRequest


@dataclass(slots=True)
class _Place:
    """patience: ends the wait. turn: the request may look for a verifier."""

    patience: asyncio.Timeout
    turn: asyncio.Event = field(default_factory=asyncio.Event)


class WaitingRoom:
    """Of one router. `places` requests may wait, those of priority 1 in half of them.

    Those of priority 0 look for a verifier at once; one of priority 1 at a time does, while no other waits.
    Where no verifier is in service for `wait_s`, all are sent away; None: they wait. `taken` and `in_service`
    may be called in any thread.
    """

    def __init__(self, places: int, wait_s: float | None, metrics: RouterMetrics) -> None:
        self._places, self._wait_s = places, wait_s
        self._metrics = metrics
        self._interactive: dict[str, _Place] = {}
        self._batch: dict[str, _Place] = {}  # in order of arrival
        self._verifiers: int | None = None  # in service; None: not known
        self._loop: asyncio.AbstractEventLoop | None = None  # while there is none, nobody waits

    @property
    def verifiers(self) -> int | None:
        """In service, as far as is known."""
        return self._verifiers

    @asynccontextmanager
    async def place(self, request: GenerationRequest) -> AsyncGenerator[None, None]:
        """Enter when it is the request's turn; what looks for a verifier and waits for its first answer goes
        inside. The place is free again as soon as a verifier has taken the request.

        Raises OverloadedError where there is no place, UnavailableError where nothing has been in service.
        """
        self._loop = asyncio.get_running_loop()
        self._check_room(request.priority)
        try:
            async with asyncio.timeout(self._patience_s()) as patience:
                place = _Place(patience)
                (self._batch if request.priority else self._interactive)[request.request_id] = place
                try:
                    self._changed()
                    if request.priority:
                        await place.turn.wait()
                    yield
                finally:
                    self._leave(request.request_id)
        except TimeoutError:
            if not patience.expired():
                raise
            raise UnavailableError("no verifier is in service; try again") from None

    def taken(self, request_id: str) -> None:
        """A verifier has the request."""
        self._call(lambda: self._leave(request_id))

    def in_service(self, verifiers: int) -> None:
        """So many verifiers are in service now."""
        before, self._verifiers = self._verifiers, verifiers
        if (before == 0) != (verifiers == 0):
            self._call(self._be_patient)

    def _check_room(self, priority: int) -> None:
        waiting, batch = len(self._interactive) + len(self._batch), len(self._batch)
        if waiting >= self._places or (priority and batch >= max(1, self._places // 2)):
            raise OverloadedError("every verifier's queue is full; try again later")

    def _patience_s(self) -> float | None:
        return self._wait_s if self._verifiers == 0 else None

    def _be_patient(self) -> None:
        """While nothing is in service, everybody's patience ends some time."""
        assert self._loop is not None
        patience_s = self._patience_s()
        when = None if patience_s is None else self._loop.time() + patience_s
        for place in (*self._interactive.values(), *self._batch.values()):
            if not place.patience.expired():
                place.patience.reschedule(when)

    def _leave(self, request_id: str) -> None:
        place = self._interactive.pop(request_id, None) or self._batch.pop(request_id, None)
        if place is not None:
            if not place.patience.expired():
                place.patience.reschedule(None)
            self._changed()

    def _changed(self) -> None:
        self._metrics.queued(len(self._interactive) + len(self._batch))
        if self._batch and not self._interactive:
            next(iter(self._batch.values())).turn.set()

    def _call(self, what: Callable[[], None]) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(what)


_rooms: dict[str, WaitingRoom] = {}


def open_room(application: str, room: WaitingRoom) -> None:
    """Let Serve's hook tell `room` of the application's verifiers. Call it before the first request."""
    _rooms[application] = room


def room_of(application: str) -> WaitingRoom | None:
    """Of this process's router. Serve makes the hooks, and tells nobody of them."""
    return _rooms.get(application)
