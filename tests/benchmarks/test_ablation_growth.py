"""Trees without value, without reranking and without both, against trees written out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.ablation.growth import VARIANTS, growth_of
from serving.spec.tree import ROOT, DraftTree

BEAM, DEPTH = 2, 3
NODES = BEAM * DEPTH
# Confidences of each node's two children.
CHILDREN = {
    "": {"a": 0.85, "b": 0.15},
    "a": {"c": 0.8, "d": 0.14},
    "b": {"e": 0.7, "f": 0.04},
    "ac": {"g": 0.3, "h": 0.1},
    "ad": {"i": 0.5, "j": 0.2},
    "be": {"k": 0.5, "l": 0.4},
}
GROWN = {
    # By value ac .68 and ad .12 are expanded, ahead of be .105. That is worth more than ach, .068.
    "full": {"a", "b", "ac", "ad", "be", "acg"},
    "no rerank": {"a", "b", "ac", "ad", "acg", "ach"},
    # By confidence ac .8 and be .7 are expanded. In the end e and k are reached through b, which is behind g.
    "confidence only": {"a", "b", "ac", "be", "acg", "bek"},
    "neither": {"a", "b", "ac", "be", "bek", "bel"},
}


def grow(variant: str, max_nodes: int) -> set[str]:
    """The paths of its nodes."""
    tree = growth_of(variant, BEAM).start(max_nodes, 0.0)
    paths, level = {ROOT: ""}, [ROOT]
    for _ in range(DEPTH):
        offered = [CHILDREN[paths[node]] for node in level]
        tokens = np.array([[ord(name) for name in each] for each in offered])
        log_q = np.log([list(each.values()) for each in offered]).astype(np.float32)
        nodes = tree.offer(level, tokens, log_q, log_q)
        paths |= {node.place: paths[node.parent] + chr(node.token_id) for node in nodes}
        level = [node.place for node in nodes]
        if not level:
            break
    return names(tree.tree(7, 11, 0))


def names(tree: DraftTree) -> set[str]:
    written: dict[int, str] = {ROOT: ""}
    for node, (parent, token) in enumerate(zip(tree.parents.tolist(), tree.token_ids.tolist(), strict=True)):
        written[node] = written[parent] + chr(token)
    return set(written.values()) - {""}


@pytest.mark.parametrize("variant", VARIANTS)
def test_which_nodes_are_verified(variant: str) -> None:
    assert grow(variant, NODES) == GROWN[variant]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_small_room_is_filled_and_not_exceeded(variant: str) -> None:
    """Near the end of an answer; that the nodes hang together is asserted by every DraftTree."""
    for room in range(1, NODES):
        assert len(grow(variant, room)) == room
