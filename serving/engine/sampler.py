"""The target's token for each row of logits, exactly as plain decoding chooses it.

Order: logit_bias, the penalties, min_tokens' mask of stop tokens (adjust.py); temperature, min_p, top_k,
top_p (each on what the one before left); then the argmax of log-probability plus noise. Temperature 0 is the
argmax of the adjusted logits. A row's result depends on that row alone: rows are never processed together by
anything that rounds. Sampled and adjusted rows are processed on the host, where a row costs less than the
launches it would take on a device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from serving.engine.adjust import Adjuster
from serving.engine.log_weights import Floats, Heavy, LogWeights, MakeLogWeights, NumpyLogWeights, Peak
from serving.spec.accept import NO_TOKEN
from serving.spec.noise import gumbel, noise_key
from serving.types import SamplingParams

_COLDEST = 1e-10
"""Below this temperature any two float32 logits that differ are further apart than noise reaches."""

_LEVELS = (-8.5, -11.0, -math.inf)
"""Log weights to look down to, one after the other. Few of a row's are larger than the first."""


class Draw(NamedTuple):
    """What a row of logits is for. `position` is the absolute position of the token being drawn.

    adjuster: has counted all tokens before `position`; None where nothing changes the logits.
    """

    params: SamplingParams
    choice_index: int
    position: int
    adjuster: Adjuster | None = None


class Sampler:
    """Chooses tokens; a pure function of each row and its Draw."""

    def __init__(self, log_weights: MakeLogWeights = NumpyLogWeights) -> None:
        self._log_weights = log_weights

    def choose(self, logits: Tensor, draws: Sequence[Draw], rows: Sequence[int] | None = None) -> list[int]:
        """The token of each draw; draws[i] is made from row rows[i] (default: i) of `logits`.

        logits: float32 [n, vocab]; rows that are not named are not touched. Ties go to the lowest id.
        NO_TOKEN for a row that has a NaN or no finite maximum.
        """
        rows = range(len(draws)) if rows is None else rows
        return [
            self._choose(logits[row], peak, draw)
            for row, peak, draw in zip(rows, _peaks(logits, rows), draws, strict=True)
        ]

    def _choose(self, row: Tensor, peak: Peak, draw: Draw) -> int:
        if not math.isfinite(peak.logit):
            return NO_TOKEN
        if draw.adjuster is not None:
            return self._choose_adjusted(draw.adjuster.adjusted(row.cpu().numpy()), draw)
        if draw.params.greedy:
            return peak.token
        return self._sample(row.cpu().numpy(), peak, draw)

    def _choose_adjusted(self, row: Floats, draw: Draw) -> int:
        peak = _peak(row)
        if not math.isfinite(peak.logit):
            return NO_TOKEN
        return peak.token if draw.params.greedy else self._sample(row, peak, draw)

    def _sample(self, row: Floats, peak: Peak, draw: Draw) -> int:
        params = draw.params
        logs = self._log_weights(row, peak, max(params.temperature, _COLDEST))
        key = noise_key(params.seed, draw.choice_index, draw.position)
        ids = logs.contenders(key, *_kept(logs, params))
        if len(ids) == 1:
            return int(ids[0])
        scores = logs.of(ids) + gumbel(ids, key)  # float64
        return int(ids[scores.argmax()])


def _peaks(logits: Tensor, rows: Sequence[int]) -> list[Peak]:
    if logits.device.type != "cpu":
        top = logits[list(rows)].max(dim=-1)
        return [Peak(*peak) for peak in zip(top.indices.tolist(), top.values.tolist(), strict=True)]
    host = logits.numpy()  # numpy's argmax is vectorised, torch's is not
    return [_peak(host[row]) for row in rows]


def _peak(row: Floats) -> Peak:
    token = int(row.argmax())
    return Peak(token, float(row[token]))


class _Kept(NamedTuple):
    """What min_p, top_k and top_p keep: all tokens with a log weight of `least` or more."""

    least: float
    among: Heavy | None = None
    """Has them all; None: not looked for."""


def _kept(logs: LogWeights, params: SamplingParams) -> _Kept:
    floor = math.log(params.min_p) if params.min_p else -math.inf
    if params.top_k == 0 and params.top_p == 1.0:
        return _Kept(floor)
    levels = (floor,) if params.min_p else _LEVELS
    for level in levels:
        heavy = logs.heavy(level)
        mass = None if params.top_k or params.min_p else heavy.mass
        least = _least_of(np.sort(heavy.logs)[::-1], params, mass, complete=level == levels[-1])
        if least is not None:
            return _Kept(least, heavy)
    raise AssertionError("a complete row tells")


def _least_of(top: Floats, params: SamplingParams, mass: float | None, *, complete: bool) -> float | None:
    """The smallest log weight that top_k and then top_p keep; None if more must be seen to tell.

    top: a row's largest log weights, falling; complete: there are no others. mass: sum of the weights that
    top_p counts; None: of those that top_k leaves.
    """
    if params.top_k:
        if len(top) < params.top_k and not complete:
            return None
        top = top[top >= top[min(params.top_k, len(top)) - 1]]
    if params.top_p == 1.0:
        return float(top[-1])
    sums = np.cumsum(np.exp(top), dtype=np.float64)
    wanted = params.top_p * (sums[-1] if mass is None else mass)
    if sums[-1] < wanted and not complete:
        return None
    reached = np.searchsorted(sums, wanted)
    return float(top[min(int(reached), len(top) - 1)])  # the last one if rounding left the sum short
