"""Confidence against acceptance: is a head's probability the chance that its guess is right?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from training.acceptance import Acceptance

BINS = 10


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Guesses with a confidence in [low, high): how many, their mean confidence, the share that was right."""

    low: float
    high: float
    count: int
    confidence: float
    accepted: float


def calibration_curve(acceptance: Acceptance, bins: int = BINS) -> list[CalibrationBin]:
    """Bins of equal width; empty ones are left out."""
    edges = np.linspace(0, 1, bins + 1)
    which = np.minimum((acceptance.confidence * bins).astype(np.int64), bins - 1)
    curve = []
    for index in range(bins):
        inside = which == index
        if inside.any():
            curve.append(
                CalibrationBin(
                    float(edges[index]),
                    float(edges[index + 1]),
                    int(inside.sum()),
                    float(acceptance.confidence[inside].mean()),
                    float(acceptance.right[inside].mean()),
                )
            )
    return curve


def calibration_error(curve: list[CalibrationBin]) -> float:
    """Expected calibration error: the mean distance of the two, weighted by count; 0 without guesses."""
    total = sum(bin.count for bin in curve)
    return sum(bin.count * abs(bin.confidence - bin.accepted) for bin in curve) / max(total, 1)
