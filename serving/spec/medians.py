"""Medians of what was measured lately, by size: what a step-time model is made of."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class _Class(NamedTuple):
    sizes: deque[float]
    values: deque[float]


class MedianTable:
    """value(size), learned from noisy observations.

    Sizes fall in classes, two per doubling. A class knows the median of its last `window` values: a machine
    that stalls now and then moves it as little as one that does not. Between classes lies a straight line;
    beyond them the last value.
    """

    def __init__(self, default: float, window: int = 31, *, together: bool = False) -> None:
        """default: the value of every size while nothing was observed. together: what makes a class larger
        does so with all, by the same factor; those that are rarely observed follow the others."""
        self._default, self._window, self._together = default, window, together
        self._seen: dict[int, _Class] = {}
        self._order: list[int] = []
        self._sizes = np.zeros(0)
        self._values = np.zeros(0)

    def observe(self, size: float, value: float) -> None:
        kind = _class_of(size)
        place = bisect_left(self._order, kind)
        new = kind not in self._seen
        if new:
            self._seen[kind] = _Class(deque(maxlen=self._window), deque(maxlen=self._window))
            self._order.insert(place, kind)
            self._sizes, self._values = (np.insert(each, place, 0.0) for each in (self._sizes, self._values))
        seen, before = self._seen[kind], self._values[place]
        seen.sizes.append(size)
        seen.values.append(value)
        self._sizes[place], self._values[place] = median(seen.sizes), median(seen.values)
        if self._together and not new and self._values[place] != before > 0:
            self._scale_others(kind, float(self._values[place] / before))

    def __call__(self, sizes: ArrayLike) -> NDArray[np.float64]:
        """float64, shaped as `sizes`."""
        wanted = np.asarray(sizes, np.float64)
        if not self._order:
            return np.full(wanted.shape, self._default)
        return np.interp(wanted, self._sizes, self._values)

    def _scale_others(self, kind: int, factor: float) -> None:
        for place, other in enumerate(self._order):
            if other != kind:
                seen = self._seen[other]
                self._seen[other] = seen._replace(
                    values=deque((v * factor for v in seen.values), self._window)
                )
                self._values[place] *= factor


def _class_of(size: float) -> int:
    """1, 2, 3, 4, 6, 8, 12, 16, ... begin a class each."""
    whole = max(int(size), 1)
    octave = whole.bit_length() - 1
    return 2 * octave + (whole >= 3 << max(octave - 1, 0) if octave else 0)
