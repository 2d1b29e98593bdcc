"""The target's token for each row of logits, exactly as plain decoding chooses it.

Order: temperature, min_p, top_k, top_p (each on what the one before left), then the argmax of log-probability
plus noise; temperature 0 is the argmax of the logits. A row's result depends on that row alone: rows are
never processed together by anything that rounds. Sampled rows are processed by numpy on the host, where a row
costs less than the launches it would take on a device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from serving.spec.accept import NO_TOKEN
from serving.spec.noise import GUMBEL_MAX, NoiseKey, gumbel, noise_key
from serving.types import SamplingParams

_COLDEST = 1e-10
"""Below this temperature any two float32 logits that differ are further apart than noise reaches."""

_LEVELS = (0.03, 1e-3, 1e-5, 0.0)
"""Weights relative to the largest. Few of a row's weights lie above the first; only those are sorted."""


class Draw(NamedTuple):
    """What a row of logits is for. `position` is the absolute position of the token being drawn."""

    params: SamplingParams
    choice_index: int
    position: int


class Sampler:
    """Chooses tokens; a pure function of each row and its Draw."""

    def choose(self, logits: Tensor, draws: Sequence[Draw]) -> list[int]:
        """The token of each row of `logits` [len(draws), vocab] (float32).

        Ties go to the lowest id. NO_TOKEN for a row that has a NaN or no finite maximum.
        """
        assert logits.shape[0] == len(draws)
        peaks = _peaks(logits)
        tokens: list[int] = np.where(np.isfinite(peaks.logits), peaks.token_ids, NO_TOKEN).tolist()
        for row, draw in enumerate(draws):
            if not draw.params.greedy and tokens[row] != NO_TOKEN:
                tokens[row] = _sample(logits[row].cpu().numpy(), peaks.logits[row], draw)
        return tokens


class _Peaks(NamedTuple):
    """The first largest logit of each row (a NaN counts as largest) and its token."""

    token_ids: NDArray[np.int64]
    logits: NDArray[np.float32]


def _peaks(logits: Tensor) -> _Peaks:
    if logits.device.type != "cpu":
        values, indices = logits.max(dim=-1)
        return _Peaks(indices.cpu().numpy(), values.cpu().numpy())
    rows = logits.numpy()  # numpy's argmax is vectorised, torch's is not
    ids = rows.argmax(axis=-1)
    return _Peaks(ids, rows[np.arange(len(rows)), ids])


def _sample(row: NDArray[np.float32], peak: np.float32, draw: Draw) -> int:
    params = draw.params
    logs = (row - peak) / max(params.temperature, _COLDEST)  # log weights: the peak has 0
    key = noise_key(params.seed, draw.choice_index, draw.position)
    alive = logs >= _least_log(logs, key)
    if params.min_p > 0.0 or params.top_k > 0 or params.top_p < 1.0:
        weights = np.exp(logs)
        alive &= weights >= _least_weight(weights, params)
    ids = np.flatnonzero(alive)
    scores = logs[ids] + gumbel(ids, key)  # float64
    return int(ids[scores.argmax()])


def _least_log(logs: NDArray[np.float32], key: NoiseKey) -> float:
    """Tokens below it lose to the peak with any noise, so theirs need not be drawn."""
    noise_of_peak = gumbel(np.array([logs.argmax()]), key)[0]
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
