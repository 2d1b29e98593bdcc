"""Medians, ratios and differences of paired measurements, with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
CONFIDENCE = 0.95


class Estimate(NamedTuple):
    """A median with its bootstrap confidence interval."""

    value: float
    low: float
    high: float


def median_with_interval(values: Sequence[float]) -> Estimate:
    """Percentile bootstrap of the median. The same values always give the same interval."""
    draws = np.random.default_rng(0).choice(np.asarray(values), (RESAMPLES, len(values)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.median(draws, axis=1), (tail, 1 - tail))
    return Estimate(median(values), float(low), float(high))


class Compared(NamedTuple):
    """Median of a rate, and the ratio to a baseline's pair by pair; None where nothing was measured."""

    rate: float | None
    ratio: Estimate | None


def compared(rates: Sequence[float | None], baseline: Sequence[float | None]) -> Compared:
    """Of the pairs in which both are known."""
    pairs = zip(rates, baseline, strict=True)
    known = [(rate, base) for rate, base in pairs if rate is not None and base is not None]
    if not known:
        return Compared(None, None)
    return Compared(median(rate for rate, _ in known), paired_ratio(*zip(*known, strict=True)))


def paired_ratio(values: Sequence[float], baseline: Sequence[float]) -> Estimate:
    """Median of values[i] / baseline[i]: what differs from pair to pair (length, text) cancels out."""
    return median_with_interval([value / base for value, base in zip(values, baseline, strict=True)])


class Pooled(NamedTuple):
    """A quotient of sums over questions, as tau is of tokens and verifications."""

    above: float
    below: float


def pooled(parts: Sequence[Pooled]) -> Estimate:
    """sum of above / sum of below, with its bootstrap interval over the parts."""
    return _pooled_estimate(np.array([parts], float))


def pooled_difference(parts: Sequence[Pooled], baseline: Sequence[Pooled]) -> Estimate:
    """What the quotient of `parts` is more than the baseline's. parts[i] and baseline[i] belong together:
    the same questions are drawn of both."""
    assert len(parts) == len(baseline)
    return _pooled_estimate(np.array([parts, baseline], float))


def _pooled_estimate(sums: NDArray[np.float64]) -> Estimate:
    """sums: [1 or 2, parts, 2]; the second, if there is one, is subtracted."""
    count = sums.shape[1]
    drawn = np.random.default_rng(0).integers(0, count, (RESAMPLES, count))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(_quotient(sums[:, drawn].sum(axis=2)), (tail, 1 - tail))
    return Estimate(float(_quotient(sums.sum(axis=1))), float(low), float(high))


def _quotient(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """[1 or 2, ..., 2] -> [...]"""
    values = sums[..., 0] / sums[..., 1]
    first: NDArray[np.float64] = values[0]
    return first - values[1] if len(values) > 1 else first
