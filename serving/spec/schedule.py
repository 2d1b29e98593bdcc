"""m by a table, for comparison and for who knows better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from serving.spec.controller import NO_DRAFTS, Choice, DraftPlan, StepOutcome
from serving.spec.cost import StepLoad
from serving.spec.tree import DraftTree


class ScheduledController:
    """m by the number of sequences that decode, the same for each; a fixed m is a schedule of one line."""

    def __init__(self, schedule: Sequence[tuple[int, int, int]], price: float) -> None:
        """schedule: (first, last, m), both ends included; between two ranges the lower one holds.
        price: the least path value that is verified."""
        assert schedule
        self._schedule = sorted(schedule)
        self.price = price

    @classmethod
    def fixed(cls, nodes: int, price: float = 0.0) -> Self:
        """The same m for every load; 0: plain decoding."""
        return cls([(1, 1, nodes)], price)

    def plan(self, load: StepLoad) -> DraftPlan:
        nodes = self._nodes(load.sequences)
        return DraftPlan(nodes, load.sequences, self.price) if nodes else NO_DRAFTS

    def choose(self, trees: Sequence[DraftTree], load: StepLoad, plan: DraftPlan) -> Choice:
        return Choice(tuple(len(tree) for tree in trees), (0,) * len(trees))

    def halves(self, load: StepLoad) -> bool:
        return False  # it predicts nothing

    def prefill_first(self, load: StepLoad) -> bool:
        return False

    def observe(self, outcome: StepOutcome) -> None:
        pass  # it knows what it does

    def _nodes(self, sequences: int) -> int:
        begun = [m for first, _, m in self._schedule if first <= sequences]
        return begun[-1] if begun else self._schedule[0][2]
