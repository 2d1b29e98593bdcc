"""Log-probabilities of what was said: log-softmax of the model's own logits, before anything changes them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from serving.types import TokenLogprobs


def token_logprobs(row: Tensor, token: int, likeliest: int) -> TokenLogprobs:
    """row: float32 [vocab], left as it is. A row's result depends on that row alone."""
    logits = row.cpu().numpy()
    total = _log_sum_exp(logits)
    best = [(int(other), float(logits[other]) - total) for other in _largest(logits, likeliest)]
    return TokenLogprobs(float(logits[token]) - total, tuple(best))


def _log_sum_exp(logits: NDArray[np.float32]) -> float:
    peak = logits.max()
    return float(peak) + math.log(float(np.exp(logits - peak).sum(dtype=np.float64)))


def _largest(logits: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Tokens of the largest logits, falling; the lower id first on ties. The row is not sorted for them."""
    count = min(count, len(logits))
    if count == 0:
        return np.empty(0, np.intp)
    edge = np.partition(logits, -count)[-count]
    ids = np.flatnonzero(logits >= edge)
    return ids[np.argsort(-logits[ids], kind="stable")][:count]
