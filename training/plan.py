"""Which conversations make up which step: a function of seed and epoch, so that a run can be resumed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def plan_epoch(lengths: Sequence[int], budget: int, seed: int, epoch: int) -> list[list[int]]:
    """Shuffled indices in groups of at most `budget` tokens; one that is longer makes a group of its own."""
    order = np.random.default_rng([seed, epoch]).permutation(len(lengths))
    return group(order.tolist(), lengths, budget)


def group(order: Sequence[int], lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Cut `order` into consecutive groups of at most `budget` tokens (one conversation at least)."""
    groups: list[list[int]] = []
    room = 0
    for index in order:
        if not groups or lengths[index] > room:
            groups.append([])
            room = budget
        groups[-1].append(index)
        room -= lengths[index]
    return groups
