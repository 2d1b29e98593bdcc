"""All rows at once give what pooling adjacent violators gives, row by row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from serving.spec.isotonic import isotonic


def pooled(values: list[float], weights: list[float]) -> list[float]:
    """Pool adjacent violators, one after the other."""
    blocks: list[list[float]] = []  # mean, weight, count
    for value, weight in zip(values, weights, strict=True):
        blocks.append([value, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            mean, mass, count = blocks.pop()
            last = blocks[-1]
            last[0] = (last[0] * last[1] + mean * mass) / (last[1] + mass)
            last[1], last[2] = last[1] + mass, last[2] + count
    return [mean for mean, _, count in blocks for _ in range(int(count))]


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 100)), min_size=1, max_size=17))
def test_isotonic_is_pooling_adjacent_violators(points: list[tuple[float, float]]) -> None:
    values, weights = (list(column) for column in zip(*points, strict=True))
    rows = isotonic(np.array([values, values[::-1]]), np.array([weights, weights[::-1]]))
    np.testing.assert_allclose(rows[0], pooled(values, weights), atol=1e-9)
    np.testing.assert_allclose(rows[1], pooled(values[::-1], weights[::-1]), atol=1e-9)
