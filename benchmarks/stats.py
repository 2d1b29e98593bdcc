"""Medians, and ratios of paired measurements with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

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
