"""How often continuations of earlier occurrences were right, learned while serving.

What decides is how much text has matched when a token is proposed, be it matched by the context or by drafted
tokens that were right (so depth needs no place of its own), and how the earlier occurrences voted.
"""

from __future__ import annotations

from bisect import bisect_left
from enum import IntEnum


class Standing(IntEnum):
    """A token's place among those that followed the earlier occurrences."""

    ALONE_ONCE = 0  # nothing else followed; one occurrence
    ALONE_TWICE = 1  # two or three
    ALONE_OFTEN = 2  # more
    LEADS_CLEARLY = 3  # longest match and most of the votes
    LEADS_BY_LENGTH = 4  # longest match, without most of the votes
    LEADS_BY_VOTES = 5  # a match as long as another token's, but most of the votes
    LEADS_BARELY = 6  # a match as long as another token's, no majority
    SECOND = 7  # as long a match as the leader's, fewer votes or less recent
    BEHIND = 8  # as long a match as the leader's, more than one before it
    SHORTER = 9  # a shorter match than the leader's


_LENGTHS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
"""Upper ends of the classes of matched length; longer ones share the last class."""

_FALL = 0.82
"""Prior doubt falls by this factor with each further token that matched."""

_DOUBT: dict[Standing, tuple[float, float]] = {
    Standing.ALONE_ONCE: (0.50, 0.0),
    Standing.ALONE_TWICE: (0.22, 0.0),
    Standing.ALONE_OFTEN: (0.10, 0.0),
    Standing.LEADS_CLEARLY: (0.40, 0.0),
    Standing.LEADS_BY_LENGTH: (0.75, 0.0),
    Standing.LEADS_BY_VOTES: (0.50, 0.1),
    Standing.LEADS_BARELY: (0.75, 0.6),
    Standing.SECOND: (0.85, 0.8),
    Standing.BEHIND: (0.95, 0.95),
    Standing.SHORTER: (0.92, 0.95),
}
"""Prior probability of being wrong: with a match of two tokens, and with an endless one.

Rounded from answers that the default model wrote; a few dozen observations outweigh them.
"""

_PRIOR_TRIALS = 8.0
_MEMORY = 0.995
"""Weight an observation keeps with each later one of its class: about the last 200 count."""


def _prior(standing: Standing, length: int) -> float:
    at_two, at_last = _DOUBT[standing]
    return 1.0 - at_last - (at_two - at_last) * _FALL ** (length - 2)


class HitRates:
    """Beta-Bernoulli estimates of P(token right | everything above it right), one per class."""

    def __init__(self) -> None:
        lengths = (*_LENGTHS, _LENGTHS[-1] + 4)
        self._prior_hits = [_PRIOR_TRIALS * _prior(s, length) for s in Standing for length in lengths]
        self._hits = [0.0] * len(self._prior_hits)
        self._trials = [0.0] * len(self._prior_hits)

    def class_of(self, standing: Standing, length: int) -> int:
        """The class that counts tokens of this standing after a match of `length` tokens."""
        return standing * (len(_LENGTHS) + 1) + bisect_left(_LENGTHS, length)

    def rate(self, class_id: int) -> float:
        """Estimate in (0, 1)."""
        return (self._prior_hits[class_id] + self._hits[class_id]) / (_PRIOR_TRIALS + self._trials[class_id])

    def observe(self, class_id: int, hit: bool) -> None:
        self._hits[class_id] = _MEMORY * self._hits[class_id] + hit
        self._trials[class_id] = _MEMORY * self._trials[class_id] + 1.0
