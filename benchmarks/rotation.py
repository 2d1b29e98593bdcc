"""Fair turns: what drifts during a run (heat, neighbours) meets every method alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def rotated(items: Sequence[Item], turn: int) -> list[Item]:
    """All items, a different one first in each turn."""
    start = turn % len(items)
    return [*items[start:], *items[:start]]
