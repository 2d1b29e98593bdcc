"""Medians and their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.stats import (
    Pooled,
    compared,
    median_with_interval,
    paired_ratio,
    pooled,
    pooled_difference,
)


def test_a_ratio_is_taken_pair_by_pair() -> None:
    """Answers of very different length, each twice as fast: the ratio is exactly two."""
    assert paired_ratio([2.0, 20.0, 200.0], [1.0, 10.0, 100.0]) == (2.0, 2.0, 2.0)


def test_pairs_must_match() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        paired_ratio([1.0], [1.0, 2.0])


def test_the_interval_holds_the_median_and_narrows_with_more_values() -> None:
    values = np.random.default_rng(1).normal(10, 2, 400).tolist()
    few, many = median_with_interval(values[:16]), median_with_interval(values)
    for estimate in (few, many):
        assert estimate.low <= estimate.value <= estimate.high
    assert many.high - many.low < (few.high - few.low) / 2


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    estimates = [median_with_interval(rng.normal(0, 1, 25)) for _ in range(200)]
    assert 0.88 <= sum(e.low <= 0 <= e.high for e in estimates) / 200 <= 0.99


def test_the_same_values_give_the_same_interval() -> None:
    values = [3.0, 1.0, 4.0, 1.0, 5.0]
    assert median_with_interval(values) == median_with_interval(values)


def test_pairs_that_are_not_whole_are_left_out() -> None:
    assert compared([4.0, None, 6.0, 1.0], [2.0, 1.0, 3.0, None]) == (5.0, (2.0, 2.0, 2.0))
    assert compared([None], [1.0]) == (None, None)


def test_a_pooled_quotient_weighs_long_answers_more() -> None:
    assert pooled([Pooled(30, 10), Pooled(1, 1)]).value == 31 / 11


def test_what_answers_have_in_common_drops_out_of_their_difference() -> None:
    """Answers that differ much from each other, of which each took one step in ten less."""
    rng = np.random.default_rng(3)
    baseline = [Pooled(100, float(steps)) for steps in rng.integers(20, 90, 30)]
    ours = [Pooled(part.above, part.below * 0.9) for part in baseline]
    apart, together = pooled(ours), pooled_difference(ours, baseline)
    assert together.value == pytest.approx(pooled(baseline).value / 9)
    assert 0 < together.low < together.value < together.high
    assert together.high - together.low < (apart.high - apart.low) / 5
