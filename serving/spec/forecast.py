"""Whether drafting will pay, told before anything is drafted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.spec.cost import StepCost, StepLoad

# Weight of a step's trees in the mean: a change of traffic is known within some twenty steps.
STEP_WEIGHT = 1 / 8
# Of a probe: the next one is far away.
PROBE_WEIGHT = 1 / 3


class Forecast(NamedTuple):
    """Tokens per second. plain: without drafts; drafted: with the best m, `nodes` of each sequence, in steps
    of `drafted_s` seconds; free: the most there could be if trees took no time."""

    plain: float
    drafted: float
    nodes: int
    drafted_s: float
    free: float

    @property
    def best(self) -> float:
        return max(self.plain, self.drafted)


class ExpectedValues:
    """The mean path value of a sequence's k-th best node, over the trees of late."""

    def __init__(self, max_nodes: int) -> None:
        # Nothing is known before the first trees, which come only if they are expected to pay.
        self._means = 0.8 ** np.arange(1, max_nodes + 1)

    def observe(
        self, values: Sequence[NDArray[np.float64]], asked: int, nodes: int, *, trusted: bool
    ) -> None:
        """values: each tree's path values, falling. A sequence of the `asked` whose tree is missing counts as
        one of no value. Of nodes beyond `nodes`, which nobody asked for, nothing is learned."""
        sums = np.zeros(len(self._means))
        for each in values:
            sums[: len(each)] += each[: len(sums)]
        weight = PROBE_WEIGHT if trusted else STEP_WEIGHT
        self._means[:nodes] += weight * (sums[:nodes] / asked - self._means[:nodes])

    def forecast(self, load: StepLoad, cost: StepCost) -> Forecast:
        """With the same number of nodes for every sequence. `load.overlapped`: of one half of a batch, which
        is drafted for while the other, as large, is verified."""
        n = load.sequences
        counts = np.arange(len(self._means) + 1)
        seconds = cost.step_s(load, n * (1 + counts))
        tokens = n * (1 + np.concatenate(([0.0], np.cumsum(self._means))))
        waited = cost.waiting_s(n, seconds[1:]) if load.overlapped else cost.draft_s(n)
        drafted_s = seconds[1:] + waited
        drafted = tokens[1:] / drafted_s
        best = int(np.argmax(drafted))
        free = float((tokens[1:] / seconds[1:]).max())
        return Forecast(n / float(seconds[0]), float(drafted[best]), best + 1, float(drafted_s[best]), free)


class AchievedShare:
    """Tokens committed, of those that forecasts promised for the time that passed."""

    HALF_LIFE = 128  # steps
    LEAST, MOST = 0.2, 1.5

    def __init__(self) -> None:
        self._committed = self._promised = 0.0

    @property
    def share(self) -> float:
        if not self._promised:
            return 1.0
        return float(np.clip(self._committed / self._promised, self.LEAST, self.MOST))

    def observe(self, committed: float, promised: float, steps: int = 1) -> None:
        """steps: that this one is an example of."""
        keep = 0.5 ** (steps / self.HALF_LIFE)
        self._committed = keep * self._committed + steps * committed
        self._promised = keep * self._promised + steps * promised


class Probing:
    """Which steps do what does not seem to pay, to see whether it would: ever fewer."""

    SOON, FIRST = 4, 8  # steps between two probes

    def __init__(self, last: int = 256) -> None:
        """last: the most steps between two probes."""
        self._last = last
        self.restart()

    def restart(self) -> None:
        """It pays."""
        self._pause = self._left = self.FIRST

    def postpone(self) -> None:
        """There are trees to learn from anyway: the pause begins anew."""
        self._left = self._pause

    def due(self, *, promising: bool) -> bool:
        """Called once in every other step. promising: the last probe was, so the next may come soon."""
        self._left -= 1
        waited = self._pause - self._left
        if self._left > 0 and not (promising and waited == self.SOON):
            return False
        self._pause = min(2 * self._pause, self._last)
        self._left = self._pause
        return True


class Stretches:
    """How long drafting goes on once it has begun, which is what catching up has to pay for itself in."""

    USUAL, MOST = 32.0, 256  # steps
    WEIGHT = 1 / 4

    def __init__(self) -> None:
        self._mean, self.steps = self.USUAL, 0

    @property
    def expected(self) -> float:
        """Steps. What has gone on for long will do so."""
        return max(self._mean, float(self.steps))

    def drafted(self) -> None:
        self.steps += 1

    def ended(self) -> None:
        """A step without drafts; what did not begin does not end."""
        if self.steps:
            self._mean += self.WEIGHT * (min(self.steps, self.MOST) - self._mean)
            self.steps = 0
