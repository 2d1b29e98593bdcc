"""Isotonic regression."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def isotonic(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Never falling rows, nearest in weighted least squares to `values` [rows, n]; weights positive.

    What pooling adjacent violators computes, by its min-max formula so that all rows are done at once:
    the highest over all starts <= i of the lowest over all ends >= i of the mean from start to end
    (Barlow et al., Statistical Inference under Order Restrictions, 1972).
    """
    n = values.shape[1]
    mass = _sums(weights)[:, None, 1:] - _sums(weights)[:, :-1, None]  # [rows, start, end]
    total = _sums(values * weights)[:, None, 1:] - _sums(values * weights)[:, :-1, None]
    valid = np.tri(n, dtype=np.bool_).T
    means = np.where(valid, total / np.where(valid, mass, 1.0), np.inf)
    lowest = np.minimum.accumulate(means[:, :, ::-1], axis=2)[:, :, ::-1]
    highest = np.maximum.accumulate(np.where(valid, lowest, -np.inf), axis=1)
    fitted: NDArray[np.float64] = np.diagonal(highest, axis1=1, axis2=2)
    return fitted


def _sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Running sums along each row, with a leading 0."""
    return np.concatenate((np.zeros((len(values), 1)), np.cumsum(values, axis=1)), axis=1)
