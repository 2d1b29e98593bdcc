"""Maps from a drafter's own confidence to the probability of acceptance.

The verifier sees what becomes of every draft token under a visited node, so it owns the maps and fits them
while serving (calibrator.py). Drafters apply what comes with a message and keep nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Method(IntEnum):
    """Who drafted a node."""

    NETWORK = 0  # a head or a draft model
    LOOKUP = 1
    BOTH = 2  # merged: the raw confidence is the higher of the two calibrated ones


def origin_of(method: Method, sampled: bool) -> int:
    """The index of a map: sampled requests, whose drafts are coupled, have maps of their own."""
    return 2 * method + sampled


def method_of(origin: int) -> Method:
    return Method(origin // 2)


def is_sampled(origin: int) -> bool:
    return origin % 2 == 1


ORIGINS = 2 * len(Method)
DEPTHS = 8
"""Depths with a map of their own; what is deeper shares the last."""

KNOTS: NDArray[np.float64] = (1.0 - np.cos(np.pi * np.arange(17) / 16)) / 2
"""Raw confidences between which a map is linear: 0 to 1, closest at the ends."""

LEAST_LEFT = 0.01
"""Of its probability, what a sibling of certain ones keeps."""

_KNOTS: list[float] = KNOTS.tolist()

Curve = Callable[[float, int], float]
"""(raw confidence, depth) -> probability of acceptance, both in (0, 1]."""


def depth_class(depth: int) -> int:
    return min(depth, DEPTHS) - 1


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationMaps:
    """Where each raw confidence leads, P(node accepted | parent accepted), by origin and depth.

    version: 0 is the identity; rises with each fit of one verifier.
    values: float32 [ORIGINS, DEPTHS, len(KNOTS)], the probability at each knot: 0 at the first, then positive
    and never falling.
    """

    version: int
    values: NDArray[np.float32]

    def __post_init__(self) -> None:
        assert self.values.shape == (ORIGINS, DEPTHS, len(KNOTS))

    def __reduce__(self) -> tuple[Callable[[int, bytes], CalibrationMaps], tuple[int, bytes]]:
        """As plain bytes: maps travel with every message, and an array takes longer to pickle."""
        return _unpacked, (self.version, self.values.tobytes())

    def apply(
        self, log_q: NDArray[np.float32], origins: NDArray[np.uint8], depth: int
    ) -> NDArray[np.float32]:
        """Calibrated log-confidences of children at `depth`: float32 [rows, width], a row of siblings each.

        log_q: likeliest first. origins: [rows]. Siblings exclude each other, as in `exclusive`. A row that
        has NaN becomes NaN.
        """
        if self.version == 0:
            return log_q
        raw = np.exp(log_q, dtype=np.float64)
        curves = self.values[:, depth_class(depth)]
        likely = np.empty_like(raw)
        for origin in set(origins.tolist()):
            rows = origins == origin
            likely[rows] = np.interp(raw[rows], KNOTS, curves[origin])
        better = np.cumsum(likely, axis=1) - likely
        likely = np.minimum(likely, np.maximum(1.0 - better, LEAST_LEFT * likely))
        likely /= np.maximum(likely.sum(axis=1, keepdims=True), 1.0)
        with np.errstate(divide="ignore"):  # what cannot be stays -inf
            return np.log(likely).astype(np.float32)

    def curve(self, origin: int) -> Curve:
        """The maps of one origin, for one confidence at a time."""
        if self.version == 0:
            return _same
        tables: list[list[float]] = self.values[origin].tolist()

        def calibrated(raw: float, depth: int) -> float:
            values = tables[depth_class(depth)]
            right = min(bisect_right(_KNOTS, raw), len(_KNOTS) - 1)
            x, y = _KNOTS[right - 1], values[right - 1]
            return y + (raw - x) / (_KNOTS[right] - x) * (values[right] - y)

        return calibrated


def exclusive(likely: Sequence[float]) -> list[float]:
    """Probabilities of siblings, of which one at most comes true: no more than what likelier ones leave of 1.

    Scaling all of them alike would take from the likeliest what the others only have because a map does not
    see who stands before them. Each keeps a little, so that it can be tried.
    """
    bounded = list(likely)
    left = 1.0
    for place in sorted(range(len(bounded)), key=lambda i: -bounded[i]):
        value = bounded[place]
        bounded[place] = min(value, max(left, LEAST_LEFT * value))
        left -= value
    scale = 1.0 / max(1.0, sum(bounded))
    return [value * scale for value in bounded]


def _same(raw: float, depth: int) -> float:
    return raw


def _unpacked(version: int, values: bytes) -> CalibrationMaps:
    return CalibrationMaps(version, np.frombuffer(values, np.float32).reshape(ORIGINS, DEPTHS, len(KNOTS)))


IDENTITY = CalibrationMaps(0, np.broadcast_to(KNOTS.astype(np.float32), (ORIGINS, DEPTHS, len(KNOTS))))
