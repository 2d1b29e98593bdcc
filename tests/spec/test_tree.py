import math
import pickle
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.spec.tree import ROOT, DraftTree


class Candidates(NamedTuple):
    """Arguments of DraftTree.build, in an order that has parents first and nothing else."""

    token_ids: list[int]
    parents: list[int]
    log_confidence: list[float]

    def path(self, node: int) -> tuple[int, ...]:
        above = () if self.parents[node] == ROOT else self.path(self.parents[node])
        return (*above, self.token_ids[node])


@st.composite
def candidates(draw, max_size=24):
    size = draw(st.integers(0, max_size))
    parents = [draw(st.integers(ROOT, i - 1)) for i in range(size)]
    # Few distinct confidences, so that ties are common.
    logs = [draw(st.sampled_from([0.0, -0.25, -0.5, -3.0])) for _ in range(size)]
    taken: set[tuple[int, int]] = set()
    tokens = []
    for parent in parents:
        tokens.append(draw(st.integers(0, 40).filter(lambda t, p=parent: (p, t) not in taken)))
        taken.add((parent, tokens[-1]))
    return Candidates(tokens, parents, logs)


def build(given_candidates: Candidates) -> DraftTree:
    """Where its confidences come from is written into them: raw is the token's, origin the token's class."""
    tokens = given_candidates.token_ids
    raw, origins = [-0.125 * token for token in tokens], [token % 6 for token in tokens]
    return DraftTree.build(7, 100, *given_candidates, raw, origins)


def paths(tree: DraftTree) -> list[tuple[int, ...]]:
    """The nodes in order; checks that what belongs to a node has stayed with it."""
    assert tree.raw.tolist() == (-0.125 * tree.token_ids).tolist()
    assert tree.origins.tolist() == (tree.token_ids % 6).tolist()
    found: list[tuple[int, ...]] = []
    for parent, token in zip(tree.parents.tolist(), tree.token_ids.tolist(), strict=True):
        found.append((*(() if parent == ROOT else found[parent]), token))
    return found


#      root
#     /    \
#    5 .6   6 .4
#    |      |  \
#    7 .5   8 .9  9 .1      V: 5 .6, 6 .4, 8 .36, 7 .3, 9 .04
EXAMPLE = Candidates([5, 6, 7, 8, 9], [-1, -1, 0, 1, 1], np.log([0.6, 0.4, 0.5, 0.9, 0.1]).tolist())


def test_nodes_with_something_below_them_continue():
    assert [build(EXAMPLE).continues(node) for node in (ROOT, 0, 1, 2, 3, 4)] == [True] * 3 + [False] * 3
    assert not DraftTree.empty(7, 100).continues(ROOT)


def test_example_is_ordered_by_path_value():
    tree = build(EXAMPLE)
    assert tree.token_ids.tolist() == [5, 6, 8, 7, 9]
    assert tree.parents.tolist() == [-1, -1, 1, 0, 1]
    assert tree.path_values.tolist() == pytest.approx([0.6, 0.4, 0.36, 0.3, 0.04], rel=1e-6)
    assert tree.depths.tolist() == [1, 1, 2, 2, 2]
    assert tree.positions.tolist() == [100, 100, 101, 101, 101]
    assert tree.edges() == {(-1, 5): 0, (-1, 6): 1, (1, 8): 2, (0, 7): 3, (1, 9): 4}


def test_example_ancestor_mask():
    expected = [
        [1, 0, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [0, 1, 1, 0, 0],
        [1, 0, 0, 1, 0],
        [0, 1, 0, 0, 1],
    ]
    assert build(EXAMPLE).ancestor_mask().astype(int).tolist() == expected


@given(candidates())
def test_build_keeps_every_path_and_orders_by_value_depth_index(cands):
    tree = build(cands)
    assert sorted(paths(tree)) == sorted(cands.path(i) for i in range(len(cands.token_ids)))

    def log_value(node):
        above = 0.0 if cands.parents[node] == ROOT else log_value(cands.parents[node])
        return above + cands.log_confidence[node]

    order = sorted(range(len(tree)), key=lambda i: (-log_value(i), len(cands.path(i)), i))
    assert paths(tree) == [cands.path(i) for i in order]
    assert tree.log_path_values.tolist() == pytest.approx([log_value(i) for i in order])


@given(candidates(), st.integers(0, 30))
def test_every_prefix_is_a_connected_tree_of_at_most_m_nodes(cands, m):
    tree = build(cands)
    prefix = tree[:m]  # constructing it checks that parents come first
    assert len(prefix) == min(m, len(tree))
    assert paths(prefix) == paths(tree)[:m]
    assert prefix.path_values.tolist() == tree.path_values[:m].tolist()


@given(candidates())
def test_mask_shows_exactly_the_path(cands):
    tree = build(cands)
    for node, path in enumerate(paths(tree)):
        seen = [i for i, other in enumerate(paths(tree)) if other == path[: len(other)]]
        assert np.flatnonzero(tree.ancestor_mask()[node]).tolist() == seen


@given(candidates(), st.data())
def test_pruning_removes_whole_subtrees_and_nothing_else(cands, data):
    tree = build(cands)
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(tree), max_size=len(tree))), np.bool_)
    removed = [path for path, kept in zip(paths(tree), keep, strict=True) if not kept]
    expected = [p for p in paths(tree) if not any(p[: len(cut)] == cut for cut in removed)]
    assert paths(tree.pruned(keep)) == expected


def test_empty_tree():
    tree = DraftTree.empty(1, 2)
    assert len(tree) == len(tree[:5]) == 0
    assert tree.ancestor_mask().shape == (0, 0)
    assert tree.depths.tolist() == tree.path_values.tolist() == []


def test_survives_the_wire():
    tree = build(EXAMPLE)
    copy = pickle.loads(pickle.dumps(tree))
    assert paths(copy) == paths(tree)
    assert (copy.seq_id, copy.base_len) == (7, 100)


@pytest.mark.parametrize(
    ("tokens", "parents", "logs"),
    [
        ([1, 1], [-1, -1], [-1.0, -1.0]),  # siblings alike
        ([1, 2], [-1, 1], [-1.0, -1.0]),  # its own parent
        ([1], [-2], [-1.0]),  # no such parent
        ([1], [-1], [0.5]),  # confidence above 1
        ([1], [-1], [math.nan]),
        ([1], [-1], [-math.inf]),
        ([1, 2], [-1, -1], [-2.0, -1.0]),  # not in order
        ([1, 2], [-1], [-1.0]),  # lengths differ
    ],
)
def test_malformed_trees_are_refused(tokens, parents, logs):
    nodes = (np.array(tokens, np.int32), np.array(parents, np.int32))
    confidence, origins = np.array(logs, np.float32), np.zeros(len(logs), np.uint8)
    with pytest.raises(AssertionError):
        DraftTree(0, 1, *nodes, confidence, confidence, origins)


def test_only_prefixes_can_be_sliced():
    with pytest.raises(AssertionError):
        build(EXAMPLE)[1:]
    with pytest.raises(AssertionError):
        build(EXAMPLE)[::2]
