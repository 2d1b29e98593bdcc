"""Calibration finds out what confidences are worth, from outcomes with a known probability."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from serving.spec.accept import walk
from serving.spec.calibration import (
    DEPTHS,
    IDENTITY,
    ORIGINS,
    CalibrationMaps,
    Method,
    exclusive,
    origin_of,
)
from serving.spec.calibrator import Calibrator
from serving.spec.tree import ROOT, DraftTree

HEAD = origin_of(Method.NETWORK, sampled=False)
OTHER = 99  # a token that is never drafted
GRID = np.linspace(0.02, 1.0, 50)

Truth = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def overconfident(raw: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.7 * raw**1.5


def modest(raw: NDArray[np.float64]) -> NDArray[np.float64]:
    return raw**0.5


class Traffic:
    """Verifies trees of one node with random confidence, whose acceptance has a known probability."""

    def __init__(self, calibrator: Calibrator, seed: int = 0) -> None:
        self.calibrator, self.rng = calibrator, np.random.default_rng(seed)

    def run(
        self,
        truth: Truth,
        count: int,
        origin: int = HEAD,
        depth: int = 1,
        low: float = 0.0,
        high: float = 1.0,
    ) -> None:
        """As many nodes at `depth`, under nodes of another origin that are always accepted."""
        for raw in np.split(self.rng.uniform(low, high, count), range(64, count, 64)):
            raw = np.maximum(raw, 1e-3)
            right = self.rng.random(len(raw)) < truth(raw)
            likely = self.calibrator.maps.apply(
                np.log(raw, dtype=np.float32)[:, None], np.full(len(raw), origin), depth
            )
            trees = [self._tree(*each, origin, depth) for each in zip(np.log(raw), likely[:, 0], strict=True)]
            self._verify(trees, right, depth)

    def _tree(self, raw: float, likely: float, origin: int, depth: int) -> DraftTree:
        above = depth - 1
        logs, raws = [0.0] * above + [likely], [0.0] * above + [raw]
        origins = [ORIGINS - 1] * above + [origin]
        return DraftTree.build(0, 1, range(depth), range(ROOT, above), logs, raws, origins)

    def _verify(self, trees: list[DraftTree], right: NDArray[np.bool_], depth: int) -> None:
        def choose(visits):
            return [v.node + 1 if v.node + 1 < depth - 1 or right[v.sequence] else OTHER for v in visits]

        self.calibrator.observe(trees, walk(trees, choose))


def mapped(maps: CalibrationMaps, origin: int = HEAD, depth: int = 1) -> NDArray[np.float64]:
    """Where the confidences of GRID lead."""
    return np.array([maps.curve(origin)(raw, depth) for raw in GRID.tolist()])


def quick(**settings: float) -> Calibrator:
    return Calibrator(**{"refit_every": 4, **settings})


@pytest.mark.parametrize("truth", [overconfident, modest])
def test_a_known_miscalibration_is_found(truth: Truth) -> None:
    calibrator = quick()
    Traffic(calibrator).run(truth, 20_000)
    assert np.abs(mapped(calibrator.maps) - truth(GRID)).mean() < 0.02
    assert np.abs(mapped(calibrator.maps) - truth(GRID))[GRID < 0.97].max() < 0.08
    assert calibrator.error.raw > 0.09
    assert calibrator.error.calibrated < 0.03


def test_maps_learn_apart() -> None:
    calibrator, sampled = quick(), origin_of(Method.LOOKUP, sampled=True)
    Traffic(calibrator).run(overconfident, 8_000, HEAD, depth=2)
    Traffic(calibrator).run(modest, 8_000, sampled, depth=3)
    maps = calibrator.maps
    assert np.abs(mapped(maps, HEAD, 2) - overconfident(GRID)).mean() < 0.03
    assert np.abs(mapped(maps, sampled, 3) - modest(GRID)).mean() < 0.03
    for origin, depth in ((HEAD, 1), (sampled, 2), (origin_of(Method.LOOKUP, False), 3)):
        np.testing.assert_allclose(mapped(maps, origin, depth), GRID, atol=1e-6)
    np.testing.assert_allclose(mapped(maps, HEAD, 3), mapped(maps, HEAD, 2), atol=1e-6)


def test_the_deepest_share_a_map() -> None:
    calibrator = quick()
    Traffic(calibrator).run(overconfident, 8_000, HEAD, depth=DEPTHS + 3)
    assert np.abs(mapped(calibrator.maps, HEAD, DEPTHS) - overconfident(GRID)).mean() < 0.03
    assert mapped(calibrator.maps, HEAD, DEPTHS).tolist() == mapped(calibrator.maps, HEAD, 40).tolist()


def test_without_data_confidences_stay_as_they_are() -> None:
    log_q = np.log(np.array([[0.5, 0.25], [0.9, 0.05]], np.float32))
    assert Calibrator().maps.apply(log_q, np.zeros(2, np.uint8), 1) is log_q
    assert mapped(IDENTITY).tolist() == GRID.tolist()


def test_little_data_moves_little() -> None:
    """Four failures out of four, around one knot: an estimate without doubt would be 0."""
    calibrator = quick(refit_every=1)
    Traffic(calibrator).run(lambda raw: 0 * raw, 4, low=0.49, high=0.51)
    assert 0.3 < calibrator.maps.curve(HEAD)(0.5, 1) < 0.48
    np.testing.assert_allclose(mapped(calibrator.maps)[GRID > 0.7], GRID[GRID > 0.7], atol=1e-6)


def test_it_follows_its_traffic() -> None:
    calibrator = quick(memory=2048.0)
    traffic = Traffic(calibrator)
    for truth in (overconfident, modest, overconfident):
        traffic.run(truth, 8_000)
        assert np.abs(mapped(calibrator.maps) - truth(GRID)).mean() < 0.04


def test_what_is_no_longer_verified_returns_to_the_identity() -> None:
    calibrator = quick(memory=1024.0)
    traffic = Traffic(calibrator)
    traffic.run(lambda raw: 0 * raw, 1_000, high=0.3)
    assert calibrator.maps.curve(HEAD)(0.2, 1) < 0.05
    traffic.run(lambda raw: raw, 12_000, low=0.5)
    assert calibrator.maps.curve(HEAD)(0.2, 1) == pytest.approx(0.2, abs=0.02)


def observe_one_level(calibrator: Calibrator, hits: list[bool], weights: list[float]) -> None:
    """A node of confidence 0.5 a tree."""
    trees = [DraftTree.build(0, 1, [0], [ROOT], np.log([0.5])) for _ in hits]
    results = walk(
        trees, lambda visits: [0 if v.node == ROOT and hits[v.sequence] else OTHER for v in visits]
    )
    calibrator.observe(trees, results, np.array(weights))


def test_weights_undo_a_choice_of_what_is_verified() -> None:
    """Nodes are right in a quarter of the cases, and then they are verified ten times as often."""
    calibrator, rng = quick(), np.random.default_rng(1)
    for _ in range(100):
        right = rng.random(200) < 0.25
        right = right[rng.random(200) < np.where(right, 1.0, 0.1)]
        observe_one_level(calibrator, right.tolist(), np.where(right, 1.0, 10.0).tolist())
    assert calibrator.maps.curve(HEAD)(0.5, 1) == pytest.approx(0.25, abs=0.04)


def test_a_heavy_observation_is_still_one_observation() -> None:
    heavy, many = quick(refit_every=1, heaviest=100.0), quick(refit_every=1)
    observe_one_level(heavy, [False], [100.0])
    observe_one_level(many, [False] * 100, [1.0] * 100)
    assert heavy.maps.curve(HEAD)(0.5, 1) > 0.42
    assert many.maps.curve(HEAD)(0.5, 1) < 0.2


def test_a_few_heavy_observations_do_not_drown_many_light_ones() -> None:
    calibrator = quick(refit_every=1)
    observe_one_level(calibrator, [True, False] * 200 + [True] * 4, [1.0] * 400 + [100.0] * 4)
    assert calibrator.maps.curve(HEAD)(0.5, 1) == pytest.approx(0.5, abs=0.06)


def test_maps_change_only_every_few_verifications() -> None:
    calibrator = Calibrator(refit_every=64)
    for count in range(1, 130):
        observe_one_level(calibrator, [True], [1.0])
        assert calibrator.maps.version == count // 64
    calibrator.observe([DraftTree.empty(0, 1)], walk([DraftTree.empty(0, 1)], lambda visits: [OTHER]))
    assert calibrator.maps.version == 2


logs = hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2), elements=st.floats(-30, 0, width=32))


@st.composite
def fitted(draw: st.DrawFn) -> CalibrationMaps:
    """Maps of whatever happened."""
    calibrator, seed = (
        quick(refit_every=1, prior=draw(st.sampled_from([0.01, 16.0]))),
        draw(st.integers(0, 99)),
    )
    table = np.random.default_rng(seed).random(16)
    low = draw(st.floats(0, 0.9))
    Traffic(calibrator, seed).run(
        lambda raw: table[(raw * 15).astype(int)], draw(st.integers(1, 500)), low=low, high=low + 0.1
    )
    return calibrator.maps


@settings(max_examples=30)
@given(fitted(), logs)
def test_maps_rise_whatever_happened(maps: CalibrationMaps, log_q: NDArray[np.float32]) -> None:
    for depth in (1, 2):
        alone = maps.apply(np.sort(log_q.ravel())[:, None], np.full(log_q.size, HEAD), depth)[:, 0]
        assert (np.diff(alone) >= 0).all()
        assert np.isfinite(alone).all()
        assert (alone <= 0).all()


@settings(max_examples=30)
@given(fitted(), logs)
def test_siblings_are_not_likelier_than_one_together(
    maps: CalibrationMaps, log_q: NDArray[np.float32]
) -> None:
    """Whatever they were before."""
    together = np.exp(maps.apply(log_q, np.full(len(log_q), HEAD), 1)).sum(axis=1)
    assert (together <= 1.0 + 1e-5).all()


@settings(max_examples=30)
@given(fitted(), st.integers(1, 12))
def test_one_at_a_time_is_as_all_at_once(maps: CalibrationMaps, depth: int) -> None:
    origins = np.full(len(GRID), HEAD)
    at_once = np.exp(maps.apply(np.log(GRID, dtype=np.float32)[:, None], origins, depth)[:, 0])
    np.testing.assert_allclose(at_once, mapped(maps, HEAD, depth), rtol=1e-4)


def test_the_likeliest_sibling_comes_first() -> None:
    """Together they would be 1.7: the second gets what the first leaves, the third next to nothing."""
    maps = CalibrationMaps(1, np.sqrt(IDENTITY.values))
    log_q = np.log(np.array([[0.64, 0.25, 0.16]], np.float32))
    (likely,) = np.exp(maps.apply(log_q, np.zeros(1, np.uint8), 1))
    assert likely.tolist() == pytest.approx([0.8, 0.2, 0.004], abs=0.01)
    assert exclusive([0.5, 0.8, 0.4]) == pytest.approx([0.2, 0.8, 0.004], abs=0.01)
    assert exclusive([0.5, 0.25]) == [0.5, 0.25]


@given(st.lists(st.floats(1e-6, 1.0), max_size=9))
def test_rows_and_lists_are_bounded_alike(confidences: list[float]) -> None:
    confidences = sorted(confidences, reverse=True)
    bounded = exclusive(confidences)
    assert sum(bounded) <= 1.0 + 1e-9
    assert bounded == sorted(bounded, reverse=True)
    if confidences:
        same = CalibrationMaps(1, IDENTITY.values)
        row = np.log(np.array([confidences], np.float32))
        np.testing.assert_allclose(np.exp(same.apply(row, np.zeros(1, np.uint8), 1))[0], bounded, atol=1e-5)


def test_rows_that_are_not_finite_stay_so_and_harm_no_others() -> None:
    """Case S12."""
    maps = CalibrationMaps(1, np.sqrt(IDENTITY.values))
    quarter = np.log(0.25)
    log_q = np.array([[quarter, np.log(0.01)], [np.nan, quarter], [quarter, -np.inf]], np.float32)
    likely = np.exp(maps.apply(log_q, np.zeros(3, np.uint8), 1))
    assert np.isnan(likely[1]).all()
    assert likely[0].tolist() == pytest.approx([0.5, 0.1], abs=0.01)
    assert likely[2].tolist() == pytest.approx([0.5, 0.0], abs=0.01)


def test_maps_survive_the_wire() -> None:
    calibrator = quick()
    Traffic(calibrator).run(modest, 1_000)
    copy = pickle.loads(pickle.dumps(calibrator.maps))
    assert copy.version == calibrator.maps.version
    assert copy.values.tolist() == calibrator.maps.values.tolist()
