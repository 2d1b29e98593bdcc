"""The target's token for each row of logits, exactly as plain decoding chooses it.

Order: logit_bias, the penalties, min_tokens' mask of stop tokens (adjust.py); temperature, min_p, top_k,
top_p (each on what the one before left); then the argmax of log-probability plus noise. Temperature 0 is the
argmax of the adjusted logits. A row's result depends on that row alone: rows are never processed together by
anything that rounds. Sampled and adjusted rows are processed by numpy on the host, where a row costs less
than the launches it would take on a device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from serving.engine.adjust import Adjuster
from serving.spec.accept import NO_TOKEN
from serving.spec.noise import GUMBEL_MAX, NoiseKey, gumbel, noise_key
from serving.types import SamplingParams

_COLDEST = 1e-10
"""Below this temperature any two float32 logits that differ are further apart than noise reaches."""

_LEVELS = (0.03, 1e-3, 1e-5, 0.0)
"""Weights relative to the largest. Few of a row's weights lie above the first; only those are sorted."""


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

    def choose(self, logits: Tensor, draws: Sequence[Draw], rows: Sequence[int] | None = None) -> list[int]:
        """The token of each draw; draws[i] is made from row rows[i] (default: i) of `logits`.

        logits: float32 [n, vocab]; rows that are not named are not touched. Ties go to the lowest id.
        NO_TOKEN for a row that has a NaN or no finite maximum.
        """
        rows = range(len(draws)) if rows is None else rows
        return [
            _choose(logits[row], peak, draw)
            for row, peak, draw in zip(rows, _peaks(logits, rows), draws, strict=True)
        ]


class _Peak(NamedTuple):
    """The largest logit of a row (a NaN counts as largest), and the first token that has it."""

    token: int
    logit: float


def _peaks(logits: Tensor, rows: Sequence[int]) -> list[_Peak]:
    if logits.device.type != "cpu":
        top = logits[list(rows)].max(dim=-1)
        return [_Peak(*peak) for peak in zip(top.indices.tolist(), top.values.tolist(), strict=True)]
    host = logits.numpy()  # numpy's argmax is vectorised, torch's is not
    return [_peak(host[row]) for row in rows]


def _peak(row: NDArray[np.float32]) -> _Peak:
    token = int(row.argmax())
    return _Peak(token, float(row[token]))


def _choose(row: Tensor, peak: _Peak, draw: Draw) -> int:
    if not math.isfinite(peak.logit):
        return NO_TOKEN
    if draw.adjuster is not None:
        return _choose_adjusted(draw.adjuster.adjusted(row.cpu().numpy()), draw)
    if draw.params.greedy:
        return peak.token
    return _sample(row.cpu().numpy(), peak, draw)


def _choose_adjusted(row: NDArray[np.float32], draw: Draw) -> int:
    peak = _peak(row)
    if not math.isfinite(peak.logit):
        return NO_TOKEN
    return peak.token if draw.params.greedy else _sample(row, peak, draw)


def _sample(row: NDArray[np.float32], peak: _Peak, draw: Draw) -> int:
    params = draw.params
    logs = (row - peak.logit) / max(params.temperature, _COLDEST)  # log weights: the peak has 0
    key = noise_key(params.seed, draw.choice_index, draw.position)
    alive = logs >= _least_log(peak.token, key)
    if params.min_p > 0.0 or params.top_k > 0 or params.top_p < 1.0:
        weights = np.exp(logs)
        alive &= weights >= _least_weight(weights, params)
    ids = np.flatnonzero(alive)
    scores = logs[ids] + gumbel(ids, key)  # float64
    return int(ids[scores.argmax()])


def _least_log(peak_token: int, key: NoiseKey) -> float:
    """Tokens below it lose to the peak with any noise, so theirs need not be drawn."""
    noise_of_peak = gumbel(np.array([peak_token]), key)[0]
    return float(noise_of_peak) - GUMBEL_MAX - 1e-3  # more than float32 rounds


def _least_weight(weights: NDArray[np.float32], params: SamplingParams) -> float:
    """The smallest weight that min_p, top_k and top_p keep. Weights equal to it are all kept."""
    least = params.min_p
    if 0 < params.top_k < len(weights):
        top = _largest(weights, lambda some: len(some) >= params.top_k)
        least = max(least, float(top[params.top_k - 1]))
    if params.top_p < 1.0:
        least = max(least, _nucleus_edge(weights[weights >= least] if least else weights, params.top_p))
    return least


def _nucleus_edge(weights: NDArray[np.float32], top_p: float) -> float:
    """The smallest weight of the nucleus: the fewest largest weights whose share is at least top_p."""
    mass = top_p * float(weights.sum(dtype=np.float64))
    top = _largest(weights, lambda some: some.sum(dtype=np.float64) >= mass)
    reached = np.searchsorted(np.cumsum(top, dtype=np.float64), mass)
    return float(top[min(int(reached), len(top) - 1)])  # the last one if rounding left the sum short


def _largest(
    weights: NDArray[np.float32], enough: Callable[[NDArray[np.float32]], bool | np.bool_]
) -> NDArray[np.float32]:
    """The largest weights, in falling order: as many as make `enough` true, and some more, or all."""
    top = weights
    for level in _LEVELS:
        top = weights[weights >= level]
        if enough(top):
            break
    return np.sort(top)[::-1]
