"""What a step costs: seconds by the rows it verifies, learned from the steps that were run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import median
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from serving.spec.medians import MedianTable

Seconds = NDArray[np.float64]

# Observations that a median of drafting is of: while it does not seem to pay, it is rarely seen.
FEW = 5


class StepLoad(NamedTuple):
    """What a step has to do whatever is drafted.

    sequences: that decode. prefill_tokens: prompt rows beside them. kv_tokens: sum of the decoding sequences'
    contexts. overlapped: others' trees are drafted while its forward runs, which may have to share cores.
    priorities[i]: of the i-th of the sequences; none: all are alike. urgent: those of priority 0 that want
    trees. missed[i]: tokens of a context that drafters have not been sent.
    """

    sequences: int
    prefill_tokens: int = 0
    kv_tokens: int = 0
    overlapped: bool = False
    priorities: tuple[int, ...] = ()
    urgent: int = 0
    missed: tuple[int, ...] = ()

    @property
    def untold(self) -> bool:
        """No drafter has been sent anything of these sequences."""
        return sum(self.missed) >= self.kv_tokens > 0

    def missed_tokens(self, *, urgent: bool) -> int:
        """That drafters have not been sent, of all sequences or of those of priority 0."""
        if not urgent:
            return sum(self.missed)
        of_each = zip(self.priorities, self.missed, strict=True)
        return sum(missed for priority, missed in of_each if priority == 0)


@dataclass(frozen=True)
class ForwardProfile:
    """Seconds of forwards at a few sizes, measured before the first request.

    rows[i]: rows of a forward, rising; decode_s[i]: of that many rows that all want logits; prefill_s[i]:
    of as many rows of one prompt. kv_token_s: for each token of context that a sequence's attention reads;
    kv_row_s: for each such token and each row of the sequence.
    """

    rows: tuple[int, ...]
    decode_s: tuple[float, ...]
    prefill_s: tuple[float, ...]
    kv_token_s: float = 0.0
    kv_row_s: float = 0.0

    def __post_init__(self) -> None:
        assert len(self.rows) == len(self.decode_s) == len(self.prefill_s) >= 2
        assert all(a < b for a, b in zip(self.rows, self.rows[1:], strict=False))

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        sizes = {name: tuple(fields[name]) for name in ("rows", "decode_s", "prefill_s")}
        return cls(**sizes, kv_token_s=fields["kv_token_s"], kv_row_s=fields["kv_row_s"])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def seconds(self, load: StepLoad, verified: ArrayLike) -> Seconds:
        """Of forwards that verify so many rows (roots and draft tokens) under this load; whole numbers, the
        largest last."""
        rows = np.asarray(verified)
        forward = self._network_s(rows + load.prefill_tokens) + self._logits_s(rows)
        per_row = self.kv_row_s / max(load.sequences, 1)
        return np.asarray(forward + load.kv_tokens * (self.kv_token_s + per_row * rows))

    @cached_property
    def _network_s(self) -> _Table:
        return _Table(lambda rows: _line(rows, self.rows, self.prefill_s))

    @cached_property
    def _logits_s(self) -> _Table:
        difference = np.subtract(self.decode_s, self.prefill_s)
        return _Table(lambda rows: np.maximum(_line(rows, self.rows, difference), 0.0))


class StepCost:
    """T(verified rows | load): the profile's forward, corrected by what forwards have taken since, plus what
    a step does beside its forward. Drafting is a cost of its own.

    All that is learned are medians: they follow a machine that gets slower, and ignore one that stalls.
    """

    def __init__(self, profile: ForwardProfile) -> None:
        self._profile = profile
        # Steps with prompt chunks are corrected apart, for a chunk's rows cost something else, and so are
        # those beside which trees are drafted, for they may share cores. What was never tried takes as long
        # as alone.
        self._corrections = {(prefill, False): _Correction() for prefill in (False, True)}
        self._beside = MedianTable(0.0)
        self._drafting = MedianTable(0.0, FEW, together=True)
        self._waiting: MedianTable | None = None
        self._catching_up = MedianTable(0.0, FEW)  # for each token: what comes in parts was seen in parts

    def step_s(self, load: StepLoad, verified: ArrayLike) -> Seconds:
        """Seconds of a step, drafting excluded, for each number of verified rows; never falling as it rises.

        verified: whole numbers, ascending.
        """
        rows = np.asarray(verified)
        forward = self._profile.seconds(load, rows) * self._correction(load)(rows + load.prefill_tokens)
        return np.maximum.accumulate(forward) + float(self._beside(load.sequences))

    def draft_s(self, sequences: int) -> float:
        """Seconds that a step gives to trees of so many sequences; 0 until one has had some."""
        return float(self._drafting(sequences))

    def waiting_s(self, sequences: int, busy_s: ArrayLike) -> Seconds:
        """The same where they are drafted during another step, of `busy_s`. Until that was tried: what is
        left of drafting then."""
        if self._waiting is not None:
            return np.broadcast_to(self._waiting(sequences), np.shape(busy_s))
        return np.maximum(self.draft_s(sequences) - np.asarray(busy_s, np.float64), 0.0)

    def catch_up_s(self, tokens: int) -> float:
        """Seconds, once and beside those of drafting, that a drafter needs for so many tokens that it has
        missed; 0 until it had to."""
        return tokens * float(self._catching_up(tokens))

    def observe(self, load: StepLoad, verified: int, forward_s: float, beside_s: float) -> None:
        """A step was run. beside_s: all of it but its forward and drafting."""
        predicted = float(self._profile.seconds(load, verified))
        self._corrections.setdefault(_kind(load), _Correction())
        self._correction(load).observe(verified + load.prefill_tokens, forward_s / predicted)
        if load.sequences and not load.prefill_tokens:
            self._beside.observe(load.sequences, beside_s)

    def observe_drafting(self, sequences: int, seconds: float) -> None:
        """A step gave so long to trees of so many sequences."""
        self._drafting.observe(sequences, seconds)

    def observe_waiting(self, sequences: int, seconds: float) -> None:
        """The same of a step whose trees were drafted during another one."""
        self._waiting = self._waiting or MedianTable(0.0)
        self._waiting.observe(sequences, seconds)

    def observe_catching_up(self, sequences: int, tokens: int, seconds: float) -> None:
        """A step gave so long to trees of so many sequences, of whose tokens the drafter had missed many."""
        self._catching_up.observe(tokens, max(seconds - self.draft_s(sequences), 0.0) / tokens)

    def _correction(self, load: StepLoad) -> _Correction:
        return self._corrections.get(_kind(load)) or self._corrections[load.prefill_tokens > 0, False]


class _Table:
    """A function of whole numbers, looked up: a step asks for some hundred of its values."""

    def __init__(self, function: Callable[[Seconds], Seconds]) -> None:
        self._function = function
        self._values = np.zeros(0)

    def __call__(self, rows: NDArray[Any]) -> Seconds:
        """rows: the largest last."""
        if (most := rows.flat[-1]) >= len(self._values):
            self._values = self._function(np.arange(max(2.0 * most, 512.0)))
        return np.asarray(self._values[rows])


class _Correction:
    """actual / predicted by rows: how fast the machine is at the moment, times how wrong the profile is.

    Apart, because sizes that were not run lately are as much slower or faster as those that were.
    """

    def __init__(self) -> None:
        self._paces: deque[float] = deque(maxlen=31)
        self._pace = 1.0  # their median
        self._shape = MedianTable(1.0)

    def __call__(self, rows: NDArray[Any]) -> Seconds:
        return self._pace * self._shape(rows)

    def observe(self, rows: int, ratio: float) -> None:
        self._paces.append(ratio / float(self._shape(rows)))
        self._pace = median(self._paces)
        self._shape.observe(rows, ratio / self._pace)


def _kind(load: StepLoad) -> tuple[bool, bool]:
    return load.prefill_tokens > 0, load.overlapped


def _line(x: Seconds, xs: ArrayLike, ys: ArrayLike) -> Seconds:
    """Straight lines through the points, the last one going on for ever."""
    knots, values = np.asarray(xs, np.float64), np.asarray(ys, np.float64)
    slope = max(float((values[-1] - values[-2]) / (knots[-1] - knots[-2])), 0.0)
    beyond: Seconds = np.maximum(x - knots[-1], 0.0) * slope
    return np.interp(x, knots, values) + beyond
