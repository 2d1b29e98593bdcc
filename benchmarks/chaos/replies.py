"""What a client got for one request, and whether that is a whole answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Arrival(NamedTuple):
    """tokens: so far, as the service counts them. at: seconds of `perf_counter`."""

    at: float
    tokens: int


class Said(NamedTuple):
    """All of an answer that must be the same whatever dies: of each choice its text, how it ended, and its
    tokens with their log-probabilities where they were asked for; and the number of tokens."""

    texts: tuple[str, ...]
    ends: tuple[str, ...]
    logprobs: tuple[Any, ...]
    tokens: int


@dataclass(slots=True)
class Reply:
    """One answer under way. `error`: why it is none; `id`: the service's name for it, once known."""

    choices: int
    sent_at: float
    id: str | None = None
    error: str | None = None
    tokens: int = 0
    arrivals: list[Arrival] = field(default_factory=list)
    _texts: list[str] = field(init=False)
    _ends: list[list[str]] = field(init=False)
    _logprobs: list[list[Any]] = field(init=False)

    def __post_init__(self) -> None:
        self._texts = [""] * self.choices
        self._ends = [[] for _ in range(self.choices)]
        self._logprobs = [[] for _ in range(self.choices)]

    def take(self, event: dict[str, Any], at: float) -> None:
        """An event of a stream, or a whole answer."""
        self.id = event["id"]
        for choice in event["choices"]:
            place = choice["index"]
            if self._ends[place]:
                self.error = "something came after a choice's final event"
            self._texts[place] += choice["text"]
            if choice["logprobs"]:
                self._logprobs[place] += zip(
                    choice["logprobs"]["tokens"], choice["logprobs"]["top_logprobs"], strict=True
                )
            if choice["finish_reason"] is not None:
                self._ends[place].append(choice["finish_reason"])
        if event.get("usage"):
            self.tokens = event["usage"]["completion_tokens"]
            self.arrivals.append(Arrival(at, self.tokens))

    def close(self) -> None:
        """Nothing more comes: every choice must have had its one final event."""
        if self.error is None and not all(len(ends) == 1 for ends in self._ends):
            self.error = "the answer ended without a final event"

    @property
    def complete(self) -> bool:
        return self.error is None

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self._texts)

    @property
    def said(self) -> Said:
        return Said(
            self.texts,
            tuple(end for ends in self._ends for end in ends),
            tuple(map(tuple, self._logprobs)),
            self.tokens,
        )
