"""Whether drafting will pay, told before anything is drafted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.spec.aim import EVERYBODY, Aim, Group
from serving.spec.cost import Seconds, StepCost, StepLoad

# Weight of a step's trees in the mean: a change of traffic is known within some twenty steps.
STEP_WEIGHT = 1 / 8
# Of a probe: the next one is far away.
PROBE_WEIGHT = 1 / 3


class Forecast(NamedTuple):
    """What plain decoding and the best drafting would come to.

    plain, drafted: worth per second, which is tokens per second where all weigh the same; free: of drafting,
    the most there could be if trees took no time. 0 where all together would get too slow. group: who is
    drafted for; nodes: how many draft tokens of each are verified, in steps of drafted_s seconds.
    plain_rate, drafted_rate: tokens per second; fastest: the most there could be.
    """

    plain: float
    drafted: float
    free: float
    group: Group
    nodes: int
    drafted_s: float
    plain_rate: float
    drafted_rate: float
    fastest: float

    @property
    def best(self) -> float:
        return max(self.plain, self.drafted)


class _Drafting(NamedTuple):
    """For a group; the rest by the number of nodes of each, from one on.

    tokens, worth: of a step; verify_s: it takes without drafting, step_s: with it. plain_s: without trees.
    """

    group: Group
    tokens: Seconds
    worth: Seconds
    verify_s: Seconds
    step_s: Seconds
    plain_s: float

    def per_s(self, seconds: Seconds, least: float) -> Seconds:
        """Worth per second in steps that take so long; 0 where that leaves less than so many tokens."""
        return np.where(self.tokens >= least * seconds, self.worth / seconds, 0.0)


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

    def forecast(self, load: StepLoad, cost: StepCost, aim: Aim = EVERYBODY) -> Forecast:
        """With the same number of nodes for every sequence that is drafted for. `load.overlapped`: of one
        half of a batch, which is drafted for while the other, as large, is verified."""
        groups = aim.groups(load)
        plain_worth = load.sequences * groups[-1].weight
        ways = [self._drafting(load, cost, group, plain_worth) for group in groups]
        plain_s = ways[0].plain_s
        plain_rate = load.sequences / plain_s
        fastest = max(plain_rate, *(float((way.tokens / way.step_s).max()) for way in ways))
        worths = [way.per_s(way.step_s, aim.floor * fastest) for way in ways]
        way, worth = max(zip(ways, worths, strict=True), key=lambda each: float(each[1].max()))
        best = int(np.argmax(worth))
        return Forecast(
            plain=plain_worth / plain_s,
            drafted=float(worth[best]),
            free=max(float(each.per_s(each.verify_s, aim.floor * fastest).max()) for each in ways),
            group=way.group,
            nodes=best + 1,
            drafted_s=float(way.step_s[best]),
            plain_rate=plain_rate,
            drafted_rate=float(way.tokens[best] / way.step_s[best]),
            fastest=fastest,
        )

    def _drafting(self, load: StepLoad, cost: StepCost, group: Group, plain_worth: float) -> _Drafting:
        n, drafted = load.sequences, group.sequences
        seconds = cost.step_s(load, n + drafted * np.arange(len(self._means) + 1))
        verify_s = seconds[1:]
        waited_s = cost.waiting_s(drafted, verify_s) if load.overlapped else cost.draft_s(drafted)
        more = drafted * np.cumsum(self._means)
        worth = plain_worth + group.weight * more
        return _Drafting(group, n + more, worth, verify_s, verify_s + waited_s, float(seconds[0]))


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

    def due(self, *, promising: bool = False, new: bool = False) -> bool:
        """Called once in every other step. promising: the last probe was, so the next may come soon. new: it
        says nothing of what there is to do now, and neither will this one of what comes then."""
        self._left -= 1
        waited = self._pause - self._left
        if new and waited >= self.FIRST:
            self._left = self._pause
            return True
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
