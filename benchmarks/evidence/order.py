"""Whether what the papers rank comes out in the same order here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class Ranked(NamedTuple):
    name: str
    value: float


def verdict(ranked: Sequence[Ranked], digits: int = 2) -> str:
    """ranked: the paper's order, best first, with our values. Where it does not hold, says between which."""
    wrong = [(better, worse) for better, worse in pairwise(ranked) if better.value < worse.value]
    chain = " > ".join(f"{name} {value:.{digits}f}" for name, value in ranked)
    if not wrong:
        return f"**Same order**: {chain}."
    parts = [
        f"{better.name} ({better.value:.{digits}f}) is behind {worse.name} ({worse.value:.{digits}f})"
        for better, worse in wrong
    ]
    return f"**Not the same order**: {'; '.join(parts)}."
