"""Growing a tree: what is kept is the best of everything that a full expansion would have offered."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from serving.spec.growth import DynamicTree
from serving.spec.tree import ROOT, DraftTree


class _Model:
    """A made-up head: k children of every path, with log probabilities drawn from the path itself."""

    def __init__(self, seed: int, k: int) -> None:
        self.seed, self.k = seed, k

    def children(self, path: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng((self.seed, *path))
        tokens = rng.permutation(100)[: self.k]
        return tokens.astype(np.int64), np.sort(rng.normal(-1.5, 1.0, self.k).astype(np.float32))[::-1]


def _grow(
    model: _Model, max_nodes: int, depth: int, beam: int, floor: float, least_reach: float = 0.0
) -> tuple[DraftTree, int]:
    tree = DynamicTree(beam, max_nodes, floor, least_reach)
    paths: dict[int, tuple[int, ...]] = {ROOT: ()}
    level, expanded = [ROOT], 0
    for _ in range(depth):
        offered = [model.children(paths[node]) for node in level]
        expanded += len(level)
        log_q = np.stack([q for _, q in offered])
        nodes = tree.offer(level, np.stack([t for t, _ in offered]), log_q, log_q)
        for node in nodes:
            paths[node.place] = (*paths[node.parent], node.token_id)
        level = [node.place for node in nodes]
        if not level:
            break
    return tree.tree(7, 11, 0), expanded


def _all_paths(model: _Model, depth: int) -> dict[tuple[int, ...], float]:
    """Log value of every path of a full expansion."""
    values: dict[tuple[int, ...], float] = {(): 0.0}
    frontier: list[tuple[int, ...]] = [()]
    for _ in range(depth):
        following = []
        for path in frontier:
            for token, log_q in zip(*model.children(path), strict=True):
                child = (*path, int(token))
                values[child] = values[path] + min(float(log_q), 0.0)
                following.append(child)
        frontier = following
    del values[()]
    return values


def _paths_of(tree: DraftTree) -> set[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(tree.token_ids.tolist(), tree.parents.tolist(), strict=True):
        paths.append((*paths[parent], token) if parent != ROOT else (token,))
    return set(paths)


@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(1, 3))
def test_with_a_wide_beam_the_tree_is_the_best_of_all_paths(seed: int, max_nodes: int, depth: int) -> None:
    model = _Model(seed, k=3)
    tree, _ = _grow(model, max_nodes, depth, beam=10**6, floor=0.0)
    best = sorted(_all_paths(model, depth).items(), key=lambda item: -item[1])[:max_nodes]
    assert _paths_of(tree) == {path for path, _ in best}


@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(1, 4), st.floats(0.01, 0.9))
def test_nothing_below_the_floor_is_kept(seed: int, max_nodes: int, depth: int, floor: float) -> None:
    tree, _ = _grow(_Model(seed, k=3), max_nodes, depth, beam=4, floor=floor)
    assert len(tree) <= max_nodes
    assert (tree.path_values >= floor - 1e-6).all()


def test_nodes_that_cannot_matter_are_not_expanded() -> None:
    _, expanded = _grow(_Model(3, k=3), max_nodes=1, depth=4, beam=8, floor=0.0)
    assert expanded <= 4  # one chain, however wide the beam


def test_children_that_are_not_finite_are_ignored() -> None:
    tree = DynamicTree(8, 8)
    log_q = np.array([[np.nan, -0.5, -np.inf]], np.float32)
    nodes = tree.offer([ROOT], np.array([[4, 5, 6]]), log_q, log_q)
    assert [node.token_id for node in nodes] == [5]
    assert tree.tree(0, 3, 0).token_ids.tolist() == [5]


def test_a_row_of_nan_gives_no_tree() -> None:
    tree = DynamicTree(8, 8)
    log_q = np.full((1, 2), np.nan, np.float32)
    assert tree.offer([ROOT], np.array([[4, 5]]), log_q, log_q) == []
    assert len(tree.tree(0, 3, 0)) == 0


@given(st.integers(0, 10_000), st.integers(1, 24), st.integers(1, 8), st.floats(0.0, 1.0))
def test_levels_left_out_change_nothing_above_them(
    seed: int, max_nodes: int, beam: int, least_reach: float
) -> None:
    model, depth = _Model(seed, 6), 5
    full, expanded = _grow(model, max_nodes, depth, beam, 0.0)
    cut, expanded_less = _grow(model, max_nodes, depth, beam, 0.0, least_reach)
    assert expanded_less <= expanded
    assert _paths_of(cut) >= _paths_of(full.pruned(full.depths <= cut.depths.max(initial=0)))


def test_a_level_that_is_reached_too_rarely_is_not_drafted() -> None:
    halves = np.log(np.array([[0.3, 0.2]], np.float32))
    tokens = np.array([[5, 6]], np.int64)
    for least_reach, drafted in ((0.49, 2), (0.51, 0)):
        assert len(DynamicTree(2, 8, 0.0, least_reach).offer([ROOT], tokens, halves, halves)) == drafted


def test_trees_grow_by_the_calibrated_confidence_and_keep_the_raw_one() -> None:
    raw = np.log(np.array([[0.5, 0.3, 0.2]], np.float32))
    log_q = np.log(np.array([[0.4, 0.02, 0.01]], np.float32))
    growing = DynamicTree(8, 8, 0.015)
    growing.offer([ROOT], np.array([[4, 5, 6]]), log_q, raw)
    tree = growing.tree(0, 3, 1)
    assert tree.token_ids.tolist() == [4, 5]
    assert tree.log_confidence.tolist() == log_q[0, :2].tolist()
    assert tree.raw.tolist() == raw[0, :2].tolist()
    assert tree.origins.tolist() == [1, 1]
