"""Whether something grows: a straight line through what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Trend(NamedTuple):
    """slope: per minute, by least squares. error: its standard error. mean: of the values."""

    slope: float
    error: float
    mean: float

    @property
    def grows(self) -> bool:
        """By more than what comes and goes explains (two standard errors)."""
        return self.slope > 2 * self.error


def trend(minutes: Sequence[float], values: Sequence[float]) -> Trend:
    """Of three samples at least."""
    at, value = np.asarray(minutes), np.asarray(values, float)
    assert len(at) == len(value) >= 3
    spread = at - at.mean()
    slope = float(spread @ (value - value.mean()) / (spread @ spread))
    rest = value - value.mean() - slope * spread
    error = float(np.sqrt(rest @ rest / (len(at) - 2) / (spread @ spread)))
    return Trend(slope, error, float(value.mean()))
