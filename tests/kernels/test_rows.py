"""What the kernels leave out of a row is never what the sampler would have chosen."""

from __future__ import annotations

import numpy as np
import pytest

from serving.config import ServeConfig
from serving.engine.log_weights import NativeLogWeights, NumpyLogWeights, Peak
from serving.kernels.rows import RowKernels
from serving.spec.noise import gumbel, noise_key

KERNELS = RowKernels(ServeConfig().cache_dir)


def both(row: np.ndarray, temperature: float) -> tuple[NumpyLogWeights, NativeLogWeights]:
    peak = Peak(int(row.argmax()), float(row.max()))
    return NumpyLogWeights(row, peak, temperature), NativeLogWeights(KERNELS, row, peak, temperature)


def rows(vocab: int) -> list[np.ndarray]:
    rng = np.random.default_rng(vocab)
    spread = [rng.normal(0, scale, vocab).astype(np.float32) for scale in (0.0, 0.3, 3.0, 40.0)]
    masked = np.where(spread[2] < 1.0, np.float32(-np.inf), spread[2])
    masked[vocab // 2] = 2.0
    return [*spread, masked]


@pytest.mark.parametrize("vocab", [1, 15, 17, 1000, 49152])
@pytest.mark.parametrize("temperature", [1e-10, 0.7, 1.5])
@pytest.mark.parametrize("least", [-2.0, -np.inf])
def test_the_winner_is_among_few_contenders(vocab, temperature, least):
    for row in rows(vocab):
        plain, native = both(row, temperature)
        logs = plain.of(np.arange(vocab))
        for position in range(20):
            key = noise_key(7, 0, position)
            scores = np.where(logs >= least, logs + gumbel(np.arange(vocab), key), -np.inf)
            among = native.heavy(least)
            found = native.contenders(key, least)
            assert np.array_equal(native.contenders(key, least, among), found)
            assert int(scores.argmax()) in found
            assert (logs[found] >= least).all()
            assert (np.diff(found) > 0).all()
            assert len(found) <= 60  # the records of a sequence of `vocab` scores: about its logarithm


@pytest.mark.parametrize("vocab", [1, 15, 17, 1000, 49152])
def test_a_row_looks_the_same_to_numpy_and_to_the_kernels(vocab):
    for row in rows(vocab):
        plain, native = both(row, 0.8)
        for level in (0.0, -3.5, -5.0, -np.inf):
            expected, found = plain.heavy(level), native.heavy(level)
            assert np.array_equal(found.ids, expected.ids)
            assert np.array_equal(found.logs, expected.logs)
            assert np.array_equal(native.of(found.ids), found.logs)
            assert found.mass == pytest.approx(expected.mass, rel=1e-6)
