"""What verification tells of a batch of trees, against the plain reading of one tree after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.spec.accept import NO_TOKEN, Visit, walk
from serving.spec.outcomes import Outcomes, outcomes_of
from serving.spec.tree import ROOT, DraftTree

#      root        5 accepted, then 8; 8 has no child
#     /    \
#    5      6
#   / \      \
#  7   8      9
TREE = DraftTree.build(
    0,
    4,
    [5, 6, 7, 8, 9],
    [ROOT, ROOT, 0, 0, 1],
    [-0.5, -1.0, -1.5, -2.0, -3.0],
    [-1, -2, -3, -4, -5],
    [0, 2, 0, 4, 0],
)
Seen = tuple[float, bool, int]


def told(*texts: list[int], trees: list[DraftTree], weights: np.ndarray | None = None) -> Outcomes:
    """texts[i]: the target's own choices along tree i; NO_TOKEN where they end."""

    def choose(visits: list[Visit]) -> list[int]:
        depths = [0 if v.node == ROOT else int(trees[v.sequence].depths[v.node]) for v in visits]
        chosen = zip(visits, depths, strict=True)
        return [[*texts[v.sequence], NO_TOKEN][depth] for v, depth in chosen]

    return outcomes_of(trees, walk(trees, choose), weights)


def as_set(seen: Outcomes) -> set[Seen]:
    return set(zip(seen.raw.tolist(), seen.accepted.tolist(), seen.depths.tolist(), strict=True))


def test_children_of_visited_nodes_are_seen_and_no_others() -> None:
    seen = told([5, 8, 1], trees=[TREE])
    assert as_set(seen) == {(-1, True, 1), (-2, False, 1), (-3, False, 2), (-4, True, 2)}
    assert dict(zip(seen.raw.tolist(), seen.origins.tolist(), strict=True)) == {-1: 0, -2: 2, -3: 0, -4: 4}
    assert sorted(seen.calibrated.tolist()) == [-2.0, -1.5, -1.0, -0.5]
    assert seen.weights.tolist() == [1.0] * 4


def test_where_nothing_matches_only_the_first_level_is_seen() -> None:
    assert as_set(told([1], trees=[TREE])) == {(-1, False, 1), (-2, False, 1)}


def test_a_row_that_cannot_be_sampled_from_says_nothing() -> None:
    """Case S11: neither of the root's children, nor of a node further down."""
    assert len(told([], trees=[TREE])) == 0
    assert as_set(told([5], trees=[TREE])) == {(-1, True, 1), (-2, False, 1)}


def test_weights_stay_with_their_nodes() -> None:
    trees, weights = [DraftTree.empty(1, 4), TREE], np.array([1.0, 100.0, 3.0, 4.0, 5.0])
    seen = told([1], [5, 1], trees=trees, weights=weights)
    assert dict(zip(seen.raw.tolist(), seen.weights.tolist(), strict=True)) == {-1: 1, -2: 100, -3: 3, -4: 4}


@pytest.mark.parametrize("trees", [[], [DraftTree.empty(0, 1)], [DraftTree.empty(0, 1)] * 3])
def test_without_drafts_there_is_nothing_to_see(trees: list[DraftTree]) -> None:
    assert len(told(*[[1]] * len(trees), trees=trees)) == 0


def read(tree: DraftTree, text: list[int]) -> list[Seen]:
    """The children of one visited node after the other."""
    seen: list[Seen] = []
    node, depth = ROOT, 1
    for token in text:
        children = np.flatnonzero(tree.parents == node)
        seen += [(tree.raw[c].item(), tree.token_ids[c] == token, depth) for c in children]
        node, depth = tree.edges().get((node, token), -2), depth + 1
    return seen


@given(st.lists(st.tuples(st.integers(0, 2**31), st.integers(0, 12)), max_size=5))
def test_a_batch_is_each_of_its_trees(batch: list[tuple[int, int]]) -> None:
    trees, texts = [], []
    for seed, size in batch:
        rng = np.random.default_rng(seed)
        edges = {(int(rng.integers(ROOT, i)), int(rng.integers(3))): None for i in range(size)}
        parents, tokens = zip(*edges, strict=True) if edges else ((), ())
        parents = [min(parent, i - 1) for i, parent in enumerate(parents)]
        unique = len(set(zip(parents, tokens, strict=True))) == len(tokens)
        logs = -rng.random(len(tokens) if unique else 0)
        raw = -rng.random(len(logs))
        trees.append(DraftTree.build(0, 1, tokens[: len(logs)], parents[: len(logs)], logs, raw))
        texts.append(rng.integers(3, size=20).tolist())
    expected = [each for tree, text in zip(trees, texts, strict=True) for each in read(tree, text)]
    seen = told(*texts, trees=trees)
    assert sorted(
        zip(seen.raw.tolist(), seen.accepted.tolist(), seen.depths.tolist(), strict=True)
    ) == sorted(expected)
