"""Fitting the calibration's maps to what verification sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from serving.spec.accept import VerifyResult
from serving.spec.calibration import DEPTHS, IDENTITY, KNOTS, ORIGINS, CalibrationMaps
from serving.spec.isotonic import isotonic
from serving.spec.outcomes import Outcomes, outcomes_of
from serving.spec.reliability import CalibrationError, Reliability
from serving.spec.tree import DraftTree

_CLASSES = ORIGINS * DEPTHS


@dataclass(slots=True)
class Calibrator:
    """Fits the maps to what verification sees. Called from one thread.

    A map is the identity plus a correction: the mean of outcome - raw confidence around each knot, where
    every observation is shared between its two knots, and `prior` more are taken to agree with the map of the
    depth above, of the first depth with the identity. Isotonic regression makes it rise. With each
    observation of a map the earlier ones of that map lose 1 / memory of their weight. So a map follows its
    traffic, and a part of it that is no longer verified returns to the prior, where it is tried again.

    heaviest: what weights are cut to. Where rare heavy observations and many light ones share a knot, they
    would drown them in their noise; where all are heavy it changes nothing.
    refit_every: verifications between two fits. error: as of the last fit, None before the first.
    reliability: of confidences as they were sent, before their outcome was known. Whoever wants to measure
    from now on may put an empty one in its place.
    """

    prior: float = 8.0
    memory: float = 8192.0
    heaviest: float = 10.0
    refit_every: int = 64
    maps: CalibrationMaps = IDENTITY
    error: CalibrationError | None = None
    reliability: Reliability = field(init=False)
    _waiting: list[Outcomes] = field(default_factory=list, init=False)
    _evidence: _Evidence = field(init=False)

    def __post_init__(self) -> None:
        self.reliability = Reliability(ORIGINS, DEPTHS, self.memory)
        self._evidence = _Evidence(self.memory)

    def observe(
        self,
        trees: Sequence[DraftTree],
        results: Sequence[VerifyResult],
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        """Learn from one verification: results[i] is what became of trees[i].

        weights: float64, of every node, one tree after the other: 1 / (the share in which such a node is
        verified at all), 1 for nodes that always are; None: all of them.
        """
        if not any(map(len, trees)):
            return
        bounded = None if weights is None else np.minimum(weights, self.heaviest)
        seen = outcomes_of(trees, results, bounded)
        if not len(seen):
            return
        self._waiting.append(seen)
        if len(self._waiting) >= self.refit_every:
            self.fit()

    def fit(self) -> None:
        """Take in what was observed since the last fit. `observe` sees to it; earlier for who cannot wait."""
        if not self._waiting:
            return
        news, self._waiting = Outcomes.joined(self._waiting), []
        self.reliability.add(news)
        self.error = self.reliability.error()
        self._evidence.add(news)
        self.maps = CalibrationMaps(self.maps.version + 1, self._evidence.values(self.prior))


@dataclass(slots=True)
class _Evidence:
    """Decayed sums around each knot: float64 [_CLASSES, len(KNOTS)].

    weight: of observations. square: of their weights' squares; weight**2 / square observations of equal
    weight would tell as much (Kish's effective sample size). residual: of weighted outcome - raw confidence.
    """

    memory: float
    weight: NDArray[np.float64] = field(init=False)
    square: NDArray[np.float64] = field(init=False)
    residual: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self.weight, self.square, self.residual = (np.zeros((_CLASSES, len(KNOTS))) for _ in range(3))

    def add(self, seen: Outcomes) -> None:
        raw = np.exp(seen.raw, dtype=np.float64)
        classes = seen.classes(DEPTHS)
        right = np.clip(np.searchsorted(KNOTS, raw, side="right"), 1, len(KNOTS) - 1)
        share = (raw - KNOTS[right - 1]) / (KNOTS[right] - KNOTS[right - 1])  # of the right knot
        cells = classes * len(KNOTS) + right
        cells, shares = np.concatenate((cells - 1, cells)), np.concatenate((1.0 - share, share))
        weights = np.tile(seen.weights, 2)
        residuals = weights * np.tile(seen.accepted - raw, 2)
        kept = np.exp(-np.bincount(classes, minlength=_CLASSES) / self.memory)[:, None]
        for sums, terms in (
            (self.weight, shares * weights),
            (self.square, shares * weights**2),
            (self.residual, shares * residuals),
        ):
            sums *= kept
            sums += np.bincount(cells, terms, minlength=sums.size).reshape(sums.shape)

    def values(self, prior: float) -> NDArray[np.float32]:
        """As in CalibrationMaps."""
        count = _ratio(self.weight**2, self.square)
        correction = _passed_down(_ratio(self.residual, self.weight), count, prior)
        wanted = np.clip(KNOTS + correction, 0.01 * KNOTS[1], 1.0)[:, 1:]
        rising = isotonic(wanted, (count + prior)[:, 1:])
        values = np.concatenate((np.zeros((_CLASSES, 1)), rising), axis=1)
        return values.astype(np.float32).reshape(ORIGINS, DEPTHS, len(KNOTS))


def _passed_down(
    means: NDArray[np.float64], counts: NDArray[np.float64], prior: float
) -> NDArray[np.float64]:
    """Means of `counts` corrections and `prior` like those a depth above: all [_CLASSES, knots]."""
    shape = (ORIGINS, DEPTHS, len(KNOTS))
    total, weight = (means * counts).reshape(shape), (counts + prior).reshape(shape)
    passed = np.zeros((ORIGINS, len(KNOTS)))
    corrections = np.empty(shape)
    for depth in range(DEPTHS):
        corrections[:, depth] = passed = (total[:, depth] + prior * passed) / weight[:, depth]
    return corrections.reshape(means.shape)


def _ratio(over: NDArray[np.float64], under: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(over, under, out=np.zeros_like(over), where=under > 0.0)
