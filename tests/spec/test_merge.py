"""Merging trees: the union of their paths, each at the better confidence, or at what agreement is worth."""

from __future__ import annotations

import numpy as np
import pytest

from serving.spec.calibration import IDENTITY, KNOTS, CalibrationMaps, Method, origin_of
from serving.spec.merge import merge
from serving.spec.tree import ROOT, DraftTree

LOOKED_UP = origin_of(Method.LOOKUP, sampled=False)
AGREED = origin_of(Method.BOTH, sampled=False)


def _paths(tree: DraftTree) -> dict[tuple[int, ...], float]:
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(tree.token_ids.tolist(), tree.parents.tolist(), strict=True):
        paths.append((*paths[parent], token) if parent != ROOT else (token,))
    return dict(zip(paths, tree.log_confidence.tolist(), strict=True))


LOOKUP = DraftTree.build(1, 9, [5, 6, 7], [ROOT, 0, 1], [-0.25, -0.25, -0.25], [-0.75, -0.5, -2.0], LOOKED_UP)
HEAD = DraftTree.build(1, 9, [4, 5, 6, 8], [ROOT, ROOT, 1, 1], [-2.0, -0.5, -0.125, -3.0], [-4, -3, -2, -1])


def test_union_of_paths_with_the_higher_confidence() -> None:
    assert _paths(merge([LOOKUP, HEAD], 16, IDENTITY)) == {
        (5,): -0.25,
        (5, 6): -0.125,
        (5, 6, 7): -0.25,
        (4,): -2.0,
        (5, 8): -3.0,
    }


def test_where_each_confidence_came_from() -> None:
    """Of what both know: from the higher calibrated one."""
    tree = merge([LOOKUP, HEAD], 16, IDENTITY)
    came = zip(tree.token_ids.tolist(), tree.raw.tolist(), tree.origins.tolist(), strict=True)
    assert sorted(came) == [(4, -4.0, 0), (5, -0.25, AGREED), (6, -0.125, AGREED), (7, -2.0, 2), (8, -1.0, 0)]


def test_sampled_agreement_is_told_from_greedy() -> None:
    trees = [DraftTree.build(1, 9, [5], [ROOT], [-1.0], None, origin) for origin in (1, 3)]
    assert merge(trees, 4, IDENTITY).origins.tolist() == [origin_of(Method.BOTH, sampled=True)]


def test_agreement_is_worth_what_its_own_map_says() -> None:
    values = IDENTITY.values.copy()
    values[AGREED, 1] = KNOTS**2  # depth 2
    both = merge([LOOKUP, HEAD], 16, CalibrationMaps(1, values))
    alone = _paths(merge([LOOKUP, HEAD], 16, IDENTITY))
    assert _paths(both) == pytest.approx({**alone, (5, 6): -0.25}, abs=0.01)


@pytest.mark.parametrize("calibration", [IDENTITY, CalibrationMaps(1, np.sqrt(IDENTITY.values))])
def test_siblings_are_not_likelier_than_one_together(calibration: CalibrationMaps) -> None:
    other = DraftTree.build(1, 9, [4, 5, 1], [ROOT, ROOT, 0], np.log([0.6, 0.4, 1.0]))
    tree = merge([LOOKUP, other], 16, calibration)
    for parent in set(tree.parents.tolist()):
        assert np.exp(tree.log_confidence[tree.parents == parent]).sum() <= 1.0 + 1e-6
    assert np.exp(tree.log_confidence[tree.parents == ROOT]).sum() == pytest.approx(1.0)


def test_the_order_of_drafters_does_not_matter() -> None:
    assert _paths(merge([LOOKUP, HEAD], 16, IDENTITY)) == _paths(merge([HEAD, LOOKUP], 16, IDENTITY))


def test_only_the_best_are_kept() -> None:
    assert set(_paths(merge([LOOKUP, HEAD], 3, IDENTITY))) == {(5,), (5, 6), (5, 6, 7)}


def test_empty_trees_merge_to_nothing_or_to_the_other() -> None:
    empty = DraftTree.empty(1, 9)
    assert len(merge([empty, empty], 8, IDENTITY)) == 0
    assert _paths(merge([empty, LOOKUP], 8, IDENTITY)) == _paths(LOOKUP)
