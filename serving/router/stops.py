"""Stop strings in a text that arrives in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Settled(NamedTuple):
    """Text that is certain to be wanted, and whether a stop string ended it."""

    text: str
    stopped: bool


class StopMatcher:
    """Cuts a text at the first stop string to be complete; of several complete at once, the longest.

    The result does not depend on how the text is split. Text that may be the beginning of a stop string is
    held back. Every stop string runs its own Knuth-Morris-Pratt automaton: constant time per character.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        assert all(stops)
        self._automata = [_Automaton(stop) for stop in stops]
        self._beginnings = frozenset(stop[0] for stop in stops)
        self._held = ""

    def push(self, text: str) -> Settled:
        """Must not be called again once it has stopped."""
        if not self._held and self._beginnings.isdisjoint(text):
            return Settled(text, False)
        open_text = self._held + text
        for end, character in enumerate(text, start=len(self._held) + 1):
            complete = [len(automaton.stop) for automaton in self._automata if automaton.step(character)]
            if complete:
                return Settled(open_text[: end - max(complete)], True)
        settled = len(open_text) - max(automaton.matched for automaton in self._automata)
        self._held = open_text[settled:]
        return Settled(open_text[:settled], False)

    def flush(self) -> str:
        """The beginning that never became a stop string."""
        text, self._held = self._held, ""
        return text


class _Automaton:
    """`matched`: length of the longest prefix of `stop` that the text so far ends with."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.matched = 0
        self._borders = _borders(stop)

    def step(self, character: str) -> bool:
        """Take one character; whether the stop string is complete."""
        while self.matched and self.stop[self.matched] != character:
            self.matched = self._borders[self.matched - 1]
        if self.stop[self.matched] == character:
            self.matched += 1
        return self.matched == len(self.stop)


def _borders(pattern: str) -> list[int]:
    """For each prefix, the length of its longest proper prefix that is also its suffix."""
    borders = [0] * len(pattern)
    for i in range(1, len(pattern)):
        length = borders[i - 1]
        while length and pattern[i] != pattern[length]:
            length = borders[length - 1]
        borders[i] = length + (pattern[i] == pattern[length])
    return borders
