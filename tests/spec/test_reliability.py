"""Errors of confidences against outcomes, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from serving.spec.outcomes import Outcomes
from serving.spec.reliability import Bin, CalibrationError, Reliability


def seen(
    raw: list[float],
    accepted: list[bool],
    calibrated: list[float] | None = None,
    weights: list[float] | None = None,
    origin: int = 0,
    depth: int = 1,
) -> Outcomes:
    count = len(raw)
    return Outcomes(
        np.full(count, origin, np.uint8),
        np.full(count, depth),
        np.log(raw, dtype=np.float32),
        np.log(calibrated or raw, dtype=np.float32),
        np.array(accepted),
        np.ones(count) if weights is None else np.array(weights),
    )


def empty(memory: float = math.inf) -> Reliability:
    return Reliability(2, 3, memory)


def test_the_mean_distance_over_bins() -> None:
    table = empty()
    #                 two of .45 with one accepted: off by .05 each; one of .85, not accepted: off by .85
    table.add(seen([0.45, 0.45, 0.85], [True, False, False], calibrated=[0.5, 0.5, 0.05]))
    error = table.error()
    assert error.raw == pytest.approx((2 * 0.05 + 0.85) / 3)
    assert error.calibrated == pytest.approx(0.05 / 3)
    assert table.bins(0, calibrated=False) == [
        pytest.approx(Bin(2.0, 0.45, 0.5)),
        pytest.approx(Bin(1.0, 0.85, 0.0)),
    ]


def test_bins_of_one_depth() -> None:
    table = empty()
    table.add(seen([0.45, 0.85], [True, True]))
    table.add(seen([0.45], [False], depth=2))
    assert table.bins(0, calibrated=False)[0] == pytest.approx(Bin(2.0, 0.45, 0.5))
    assert table.bins(0, calibrated=False, depth=2) == [pytest.approx(Bin(1.0, 0.45, 0.0))]


def test_errors_of_different_maps_do_not_cancel() -> None:
    table = empty()
    table.add(seen([0.5] * 4, [True] * 4))
    table.add(seen([0.5] * 4, [False] * 4, origin=1, depth=9))
    assert table.error().raw == pytest.approx(0.5)
    assert table.weight() == 8
    assert table.weight(1, 3) == table.weight(1) == table.weight(0, 1) == 4  # the last depth is open
    assert table.error(1, 2) is None
    assert table.error(1, 3) == CalibrationError(pytest.approx(0.5), pytest.approx(0.5))


def test_weights_count() -> None:
    table = empty()
    table.add(seen([0.5, 0.5], [True, False], weights=[3.0, 1.0]))
    assert table.error().raw == pytest.approx(0.25)


def test_old_outcomes_fade() -> None:
    table = empty(memory=100.0)
    table.add(seen([0.5] * 100, [False] * 100))
    table.add(seen([0.5] * 1000, [True, False] * 500))
    assert table.error().raw < 0.01
    assert table.weight() < 1001


def test_of_nothing_there_is_no_error() -> None:
    assert empty().error() is None
    assert empty().chance() == 0.0
    assert empty().bins(0, calibrated=True) == []


def test_chance_is_what_right_confidences_show() -> None:
    rng = np.random.default_rng(0)
    errors, chances = [], []
    for _ in range(50):
        table, confidence = empty(), rng.uniform(0.01, 1.0, 200)
        table.add(seen(confidence.tolist(), (rng.random(200) < confidence).tolist()))
        errors.append(table.error().calibrated)
        chances.append(table.chance())
    assert np.mean(errors) == pytest.approx(np.mean(chances), rel=0.15)
