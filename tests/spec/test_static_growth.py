"""Trees of a fixed shape: every place of the shape is filled with the child of its rank, and no other."""

from __future__ import annotations

import numpy as np
import pytest

from serving.spec.static_growth import likely_paths, static_growth
from serving.spec.tree import ROOT


def test_each_place_has_the_child_of_its_rank() -> None:
    growth = static_growth([[0], [2], [2, 1]])
    assert (growth.width, growth.expanded(99, 2), growth.expanded(99, 1)) == (3, 1, 0)
    grower = growth.start(8, 0.9)  # a floor would leave nothing
    log_q = np.log(np.array([[0.5, 0.3, 0.1]], np.float32))
    first = grower.offer([ROOT], np.array([[10, 11, 12]]), log_q, 2 * log_q)
    assert [(node.token_id, node.parent) for node in first] == [(12, ROOT)]
    halves = np.full((1, 3), -0.5, np.float32)
    assert grower.offer([first[0].place], np.array([[20, 21, 22]]), halves, 2 * halves) == []
    tree = grower.tree(3, 7, 1)
    assert (tree.token_ids.tolist(), tree.parents.tolist()) == ([10, 12, 21], [ROOT, ROOT, 1])
    assert (tree.seq_id, tree.base_len) == (3, 7)
    assert tree.raw.tolist() == (2 * tree.log_confidence).tolist()
    assert tree.origins.tolist() == [1, 1, 1]


def test_a_smaller_tree_is_the_likelier_part() -> None:
    grower = static_growth([[0], [1]]).start(1, 0.0)
    log_q = np.array([[-0.9, -0.2]], np.float32)
    grower.offer([ROOT], np.array([[10, 11]]), log_q, log_q)
    assert grower.tree(0, 1, 0).token_ids.tolist() == [11]


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_children_that_are_not_finite_or_not_there_are_left_out(bad: float) -> None:
    grower = static_growth([[0], [1], [1, 0], [2]]).start(8, 0.0)
    log_q = np.array([[-0.1, bad]], np.float32)
    assert grower.offer([ROOT], np.array([[10, 11]]), log_q, log_q) == []
    assert grower.tree(0, 1, 0).token_ids.tolist() == [10]


def test_the_built_in_shape() -> None:
    growth = static_growth(None)
    assert len(growth.paths) == len(set(growth.paths)) == 25
    assert max(map(len, growth.paths)) == 5
    assert growth.children[()] == [0, 1, 2]


def test_likely_paths_come_with_their_parents_and_elder_siblings() -> None:
    paths = likely_paths(60, 4)
    for path in paths:
        assert path[:-1] == () or path[:-1] in paths
        assert path[-1] == 0 or (*path[:-1], path[-1] - 1) in paths
