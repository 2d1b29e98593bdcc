"""Which conversations make up which step: a function of seed and epoch, so that a run can be resumed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from training.data import Conversation


class Plan:
    """Every epoch is shuffled and cut into steps of at most `budget` tokens."""

    def __init__(self, conversations: Sequence[Conversation], epochs: int, budget: int, seed: int) -> None:
        lengths = [len(c.token_ids) for c in conversations]
        self._conversations = conversations
        self._steps = [
            indices for epoch in range(epochs) for indices in _plan_epoch(lengths, budget, seed, epoch)
        ]

    @property
    def total_steps(self) -> int:
        return len(self._steps)

    def shares(self, first_step: int, rank: int = 0, workers: int = 1) -> Iterator[list[Conversation]]:
        """What one of several workers takes of each step; together they take all of it."""
        for indices in self._steps[first_step:]:
            yield [self._conversations[index] for index in indices[rank::workers]]


def group(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Consecutive indices in groups of at most `budget` tokens; one that is longer is a group of its own."""
    groups: list[list[int]] = []
    room = 0
    for index, length in enumerate(lengths):
        if not groups or length > room:
            groups.append([])
            room = budget
        groups[-1].append(index)
        room -= length
    return groups


def _plan_epoch(lengths: Sequence[int], budget: int, seed: int, epoch: int) -> list[list[int]]:
    order = np.random.default_rng([seed, epoch]).permutation(len(lengths)).tolist()
    return [[order[place] for place in part] for part in group([lengths[i] for i in order], budget)]
