"""Merging trees: the union of their paths, each at the better confidence."""

from __future__ import annotations

from serving.spec.merge import merge
from serving.spec.tree import ROOT, DraftTree


def _paths(tree: DraftTree) -> dict[tuple[int, ...], float]:
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(tree.token_ids.tolist(), tree.parents.tolist(), strict=True):
        paths.append((*paths[parent], token) if parent != ROOT else (token,))
    return dict(zip(paths, tree.log_confidence.tolist(), strict=True))


LOOKUP = DraftTree.build(1, 9, [5, 6, 7], [ROOT, 0, 1], [-0.25, -0.25, -0.25])
HEAD = DraftTree.build(1, 9, [4, 5, 6, 8], [ROOT, ROOT, 1, 1], [-1.0, -0.5, -0.125, -3.0])


def test_union_of_paths_with_the_higher_confidence() -> None:
    assert _paths(merge([LOOKUP, HEAD], 16)) == {
        (5,): -0.25,
        (5, 6): -0.125,
        (5, 6, 7): -0.25,
        (4,): -1.0,
        (5, 8): -3.0,
    }


def test_the_order_of_drafters_does_not_matter() -> None:
    assert _paths(merge([LOOKUP, HEAD], 16)) == _paths(merge([HEAD, LOOKUP], 16))


def test_only_the_best_are_kept() -> None:
    assert set(_paths(merge([LOOKUP, HEAD], 3))) == {(5,), (5, 6), (5, 6, 7)}


def test_empty_trees_merge_to_nothing_or_to_the_other() -> None:
    empty = DraftTree.empty(1, 9)
    assert len(merge([empty, empty], 8)) == 0
    assert _paths(merge([empty, LOOKUP], 8)) == _paths(LOOKUP)
