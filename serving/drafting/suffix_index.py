"""Where the end of a growing text has occurred before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

_SCANNED = 64
"""Occurrences looked at, most recent first: frequent n-grams of long texts must not cost time."""

_KEPT = 16
"""Occurrences that may vote on a continuation."""


class Match(NamedTuple):
    """An earlier occurrence of the text's last `length` tokens; `tokens[next]` is what followed it."""

    length: int
    next: int


class SuffixIndex:
    """A text and, for each of its n-grams of the shortest length, the places where it ended.

    Appending a token and finding the matches of the current end both cost O(1) in the length of the text.
    """

    def __init__(self, shortest: int, longest: int) -> None:
        assert 1 <= shortest <= longest
        self._shortest, self._longest = shortest, longest
        self.tokens: list[int] = []
        self._latest: dict[tuple[int, ...], int] = {}  # n-gram -> place after its latest occurrence
        self._before: list[int] = []  # place -> place after the occurrence before it, 0: none

    def extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            place = len(self.tokens)
            ending = tuple(self.tokens[-self._shortest :])
            self._before.append(self._latest.get(ending, 0))
            if place >= self._shortest:
                self._latest[ending] = place
            self.tokens.append(token)

    def matches(self) -> list[Match]:
        """Occurrences of the longest suffixes: longest first, then the most recent."""
        place = self._latest.get(tuple(self.tokens[-self._shortest :]), 0)
        found: list[Match] = []
        while place and len(found) < _SCANNED:
            found.append(Match(self._length_at(place), place))
            place = self._before[place]
        found.sort(key=lambda match: -match.length)
        return found[:_KEPT]

    def _length_at(self, place: int) -> int:
        """How many tokens before `place` equal the text's last ones."""
        tokens, end, length = self.tokens, len(self.tokens), self._shortest
        most = min(self._longest, place)
        while length < most and tokens[place - 1 - length] == tokens[end - 1 - length]:
            length += 1
        return length
