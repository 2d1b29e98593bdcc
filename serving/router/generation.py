"""All choices of one client request, run together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from time import perf_counter

from serving.metrics import RouterMetrics
from serving.router.backend import TokenSource
from serving.router.choice import Choice, Piece
from serving.types import FinishReason, SpeculationStats


class Generation:
    """Choices that run concurrently; their pieces arrive interleaved, each choice's in order.

    `started` is when the client's request arrived (`time.perf_counter`): latencies count from there.
    """

    def __init__(
        self, source: TokenSource, choices: Sequence[Choice], metrics: RouterMetrics, started: float
    ) -> None:
        self.choices = choices
        self._source = source
        self._metrics = metrics
        self._started = started
        self.seconds_to_first_token: float | None = None

    @property
    def completion_tokens(self) -> int:
        return sum(len(choice.token_ids) for choice in self.choices)

    @property
    def cached_tokens(self) -> int:
        """Of each prompt once: its other choices may find what the first has just computed."""
        return sum(choice.cached_tokens for choice in self.choices if choice.request.choice_index == 0)

    @property
    def stats(self) -> SpeculationStats | None:
        """Summed over the choices; None as long as no verifier has sent any."""
        known = [choice.stats for choice in self.choices if choice.stats is not None]
        if not known:
            return None
        total = SpeculationStats()
        for stats in known:
            total.add(stats)
        return total

    def pieces(self) -> AsyncGenerator[Piece, None]:
        """Ends after every choice's last piece. Closing it early aborts all; so does the first failure.

        Raises what `Choice.stream` raises.
        """
        return self._run(self.choices[0]) if len(self.choices) == 1 else self._interleaved()

    async def _interleaved(self) -> AsyncGenerator[Piece, None]:
        # Bounded: a slow client slows the streams, whose deltas then coalesce at the verifier.
        arrivals: asyncio.Queue[Piece | Exception] = asyncio.Queue(maxsize=len(self.choices))
        tasks = [asyncio.create_task(self._forward(choice, arrivals)) for choice in self.choices]
        running = len(tasks)
        try:
            while running:
                piece = _raised(await arrivals.get())
                running -= piece.finish_reason is not None
                yield piece
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _forward(self, choice: Choice, arrivals: asyncio.Queue[Piece | Exception]) -> None:
        try:
            async with aclosing(self._run(choice)) as pieces:
                async for piece in pieces:
                    await arrivals.put(piece)
        except Exception as error:
            await arrivals.put(error)

    async def _run(self, choice: Choice) -> AsyncGenerator[Piece, None]:
        """The choice's pieces, timed and counted."""
        outcome = FinishReason.ABORT
        first = last = None
        try:
            async with aclosing(choice.stream(self._source)) as pieces:
                async for piece in pieces:
                    now = perf_counter()
                    if last is None:
                        first = now
                        self._first_token(now - self._started)
                    else:
                        self._metrics.next_tokens(now - last)
                    last = now
                    outcome = piece.finish_reason or outcome
                    yield piece
        except Exception:
            outcome = FinishReason.ERROR
            raise
        finally:
            self._metrics.finished(
                outcome,
                prompt_tokens=len(choice.request.prompt_ids),
                completion_tokens=len(choice.token_ids),
                seconds=perf_counter() - self._started,
                decode_seconds=0.0 if first is None or last is None else last - first,
            )

    def _first_token(self, seconds: float) -> None:
        self._metrics.first_token(seconds)
        if self.seconds_to_first_token is None:
            self.seconds_to_first_token = seconds


def _raised(arrival: Piece | Exception) -> Piece:
    """The piece. Raises what came in its place."""
    if not isinstance(arrival, Exception):
        return arrival
    try:
        raise arrival
    finally:
        del arrival  # this frame is one of its own now
