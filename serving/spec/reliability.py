"""How far confidences are from the share in which they come true."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.spec.outcomes import Outcomes

BINS = 10


@dataclass(frozen=True, slots=True)
class CalibrationError:
    """Expected calibration error of confidences, raw as drafters give them, and calibrated as they are sent.

    The mean, over observations, of |mean confidence - share accepted| of their bin of confidence (Guo et al.,
    On Calibration of Modern Neural Networks, 2017); each map has bins of its own.
    """

    raw: float
    calibrated: float


class Bin(NamedTuple):
    """weight: of observations. confidence: their mean. accepted: the share that was."""

    weight: float
    confidence: float
    accepted: float


@dataclass(slots=True)
class Reliability:
    """Outcomes by origin, depth and bin of confidence, the old ones fading.

    memory: observations of a class after which 1/e is left of the weight of earlier ones; inf: nothing fades.
    """

    origins: int
    depths: int
    memory: float
    _raw: NDArray[np.float64] = field(init=False)
    _calibrated: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        # Sums of weight, confidence and acceptance.
        shape = (3, self.origins, self.depths, BINS)
        self._raw, self._calibrated = np.zeros(shape), np.zeros(shape)

    def add(self, seen: Outcomes) -> None:
        classes = seen.classes(self.depths)
        counts = np.bincount(classes, minlength=self.origins * self.depths)
        kept = np.exp(-counts / self.memory).reshape(self.origins, self.depths, 1)
        for table, log_confidence in ((self._raw, seen.raw), (self._calibrated, seen.calibrated)):
            confidence = np.exp(log_confidence, dtype=np.float64)
            cells = classes * BINS + np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
            table *= kept
            for sums, terms in zip(table, (np.ones(len(seen)), confidence, seen.accepted), strict=True):
                sums += np.bincount(cells, seen.weights * terms, minlength=sums.size).reshape(sums.shape)

    def error(self, origin: int | None = None, depth: int | None = None) -> CalibrationError | None:
        """Of one origin and depth, or of all; None without observations."""
        total = self.weight(origin, depth)
        if total == 0.0:
            return None
        _, confidence, accepted = _part(self._raw, origin, depth)
        raw = float(np.abs(confidence - accepted).sum()) / total
        _, confidence, accepted = _part(self._calibrated, origin, depth)
        return CalibrationError(raw, float(np.abs(confidence - accepted).sum()) / total)

    def chance(self, origin: int | None = None, depth: int | None = None) -> float:
        """The calibrated error to expect of so many observations if every confidence were right.

        In each bin the mean of |a centred normal variable| with the variance of what is accepted there.
        """
        weight, confidence, _ = _part(self._calibrated, origin, depth)
        mean = np.divide(confidence, weight, out=np.zeros_like(weight), where=weight > 0.0)
        deviations = np.sqrt(2 / np.pi * weight * mean * (1.0 - mean))
        return float(deviations.sum() / max(weight.sum(), 1.0))

    def bins(self, origin: int, calibrated: bool, depth: int | None = None) -> list[Bin]:
        """The bins that have observations, of one depth or of all together."""
        table = _part(self._calibrated if calibrated else self._raw, origin, depth).sum(axis=(1, 2))
        filled = table[:, table[0] > 0.0].T.tolist()
        return [
            Bin(weight, confidence / weight, accepted / weight) for weight, confidence, accepted in filled
        ]

    def weight(self, origin: int | None = None, depth: int | None = None) -> float:
        """Of observations."""
        return float(_part(self._raw, origin, depth)[0].sum())


def _part(table: NDArray[np.float64], origin: int | None, depth: int | None) -> NDArray[np.float64]:
    """[3, origins, depths, BINS], of one origin or all, of one depth (from 1) or all."""
    return table[:, _only(origin), _only(None if depth is None else depth - 1)]


def _only(place: int | None) -> slice:
    return slice(None) if place is None else slice(place, place + 1)
