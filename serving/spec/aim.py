"""What m is chosen for: everybody's tokens per second, or first of all some users'."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.spec.cost import StepLoad


class Aim(NamedTuple):
    """The most tokens per second, each weighed by its request's priority, as long as the tokens per second of
    all alike stay above `floor` times the most there could be.

    weights[p]: of priority p; the largest is 1, so that a price is in path values of the most important.
    """

    weights: tuple[float, ...]
    floor: float

    def alike(self, load: StepLoad) -> bool:
        """Whether all of its sequences weigh the same."""
        return len({self.weights[priority] for priority in load.priorities}) < 2

    def of_each(self, load: StepLoad) -> NDArray[np.float64]:
        """float64 [sequences]."""
        return np.array([self.weights[priority] for priority in load.priorities])

    def groups(self, load: StepLoad) -> list[Group]:
        """Whom to draft for, if for any: those of priority 0 only, or all, who come last."""
        if self.alike(load):
            # Then weights change nothing, and need not be known.
            return [Group(load.sequences, 1.0, urgent=False)]
        everyone = Group(load.sequences, float(self.of_each(load).mean()), urgent=False)
        return [Group(load.urgent, self.weights[0], urgent=True), everyone] if load.urgent else [everyone]


class Group(NamedTuple):
    """So many sequences whose tokens weigh so much in the mean. urgent: they are those of priority 0."""

    sequences: int
    weight: float
    urgent: bool


EVERYBODY = Aim((1.0, 1.0), floor=0.0)
