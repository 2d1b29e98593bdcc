"""One row of logits as log weights: (logit - peak) / temperature, float32. The peak has 0.

What the sampler asks of a whole row, answered by numpy and by the compiled kernels.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from ctypes import byref, c_double
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from serving.kernels.build import BuildError
from serving.kernels.rows import RowKernels
from serving.spec.noise import GUMBEL_MAX, NoiseKey, gumbel

log = logging.getLogger(__name__)

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]


class Peak(NamedTuple):
    """The largest logit of a row (a NaN counts as largest), and the first token that has it."""

    token: int
    logit: float


class Heavy(NamedTuple):
    """A row's tokens with a log weight of some level or more, rising, and what the row sums to."""

    ids: NDArray[np.int32]
    logs: Floats
    mass: float
    """Sum of all the row's weights."""


class LogWeights(Protocol):
    """A row of logits [vocab] at a temperature; the largest logit is finite."""

    def of(self, ids: Ids) -> Floats:
        """Of these tokens."""

    def heavy(self, level: float) -> Heavy:
        """Tokens with a log weight of `level` or more."""

    def contenders(self, key: NoiseKey, least: float, among: Heavy | None = None) -> Ids:
        """Of the tokens with a log weight of `least` or more, those that may have the largest sum of log
        weight and noise, and perhaps some more; rising. `among` has all such; None: look at the row."""


MakeLogWeights = Callable[[Floats, Peak, float], LogWeights]


def log_weights(cache_dir: Path) -> MakeLogWeights:
    """With the compiled kernels, or with numpy where they cannot be had."""
    try:
        kernels = RowKernels(cache_dir)
    except BuildError as error:
        log.warning("drawing tokens without CPU kernels: %s", error)
        return NumpyLogWeights
    return lambda row, peak, temperature: NativeLogWeights(kernels, row, peak, temperature)


class NumpyLogWeights:
    """LogWeights by passes over the row."""

    def __init__(self, row: Floats, peak: Peak, temperature: float) -> None:
        self._logs = (row - peak.logit) * np.float32(1.0 / temperature)
        self._peak = peak

    def of(self, ids: Ids) -> Floats:
        return self._logs[ids]

    def heavy(self, level: float) -> Heavy:
        ids = np.flatnonzero(self._logs >= np.float32(level))
        mass = np.exp(self._logs).sum(dtype=np.float64)
        return Heavy(ids.astype(np.int32), self._logs[ids], float(mass))

    def contenders(self, key: NoiseKey, least: float, among: Heavy | None = None) -> Ids:
        noise_of_peak = float(gumbel(np.array([self._peak.token]), key)[0])
        # Below it a token loses to the peak with any noise, so its own need not be drawn.
        hopeless = noise_of_peak - GUMBEL_MAX - 1e-3  # more than float32 rounds
        return np.flatnonzero(self._logs >= np.float32(max(least, hopeless)))


class NativeLogWeights:
    """LogWeights by the kernels, which keep no array of the row's size and hash noise 16 tokens at a time."""

    def __init__(self, kernels: RowKernels, row: Floats, peak: Peak, temperature: float) -> None:
        assert row.dtype == np.float32
        assert row.flags.c_contiguous
        self._kernels, self._row, self._peak = kernels, row, peak
        self._scale = np.float32(1.0 / temperature)

    def of(self, ids: Ids) -> Floats:
        return (self._row[ids] - self._peak.logit) * self._scale

    def heavy(self, level: float) -> Heavy:
        room, mass = _room(len(self._row)), c_double()
        ids, logs = room.ids.ctypes.data, room.logs.ctypes.data
        count = self._kernels.heavy(*self._whole_row(), level, ids, logs, byref(mass))
        return Heavy(room.ids[:count].copy(), room.logs[:count].copy(), mass.value)

    def contenders(self, key: NoiseKey, least: float, among: Heavy | None = None) -> Ids:
        if among is None:
            row, ids = self._whole_row(), None
        else:
            row, ids = (among.logs.ctypes.data, len(among.logs), 0.0, 1.0), among.ids.ctypes.data
        found, words = _room(len(self._row)).ids, np.array(key, np.uint32)
        count = self._kernels.contenders(
            *row, ids, least, self._peak.token, words.ctypes.data, found.ctypes.data
        )
        return found[:count].astype(np.int64)

    def _whole_row(self) -> tuple[int, int, float, float]:
        return self._row.ctypes.data, len(self._row), self._peak.logit, float(self._scale)


class _Room(NamedTuple):
    """Where the kernels write: fresh memory of this size costs more than what they do."""

    ids: NDArray[np.int32]
    logs: Floats


@lru_cache(maxsize=2)
def _room(vocab_size: int) -> _Room:
    """A target has one vocabulary, and one thread draws from it."""
    return _Room(np.empty(vocab_size, np.int32), np.empty(vocab_size, np.float32))
