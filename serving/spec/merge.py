"""Several drafters' trees of one sequence as one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from serving.spec.calibration import CalibrationMaps, Method, exclusive, is_sampled, method_of, origin_of
from serving.spec.tree import ROOT, DraftTree


@dataclass(slots=True)
class _Node:
    """A node of the union; log, raw: log-confidences as in DraftTree."""

    parent: int
    depth: int
    log: float
    raw: float
    origin: int


def merge(trees: Sequence[DraftTree], max_nodes: int, calibration: CalibrationMaps) -> DraftTree:
    """The best `max_nodes` of the union of paths. Siblings' confidences sum to at most 1.

    A node that two drafters know has a map of its own: that they agree says something, but they have mostly
    seen the same thing. What is mapped is the higher of their calibrated confidences.
    """
    assert trees
    assert len({(tree.seq_id, tree.base_len) for tree in trees}) == 1
    places: dict[tuple[int, int], int] = {}
    nodes: list[_Node] = []
    for tree in trees:
        _add(tree, places, nodes)
    _settle_agreed(nodes, calibration)
    _exclude_siblings(nodes)
    return DraftTree.build(
        trees[0].seq_id,
        trees[0].base_len,
        [token for _, token in places],
        [node.parent for node in nodes],
        [node.log for node in nodes],
        [node.raw for node in nodes],
        [node.origin for node in nodes],
    )[:max_nodes]


def _add(tree: DraftTree, places: dict[tuple[int, int], int], nodes: list[_Node]) -> None:
    """places: (parent's place, token) -> place among the union's nodes, parents first."""
    merged: list[int] = []  # place in the union of each of this tree's nodes
    columns = (tree.token_ids, tree.parents, tree.log_confidence, tree.raw, tree.origins)
    for token, above, log, raw, origin in zip(*(column.tolist() for column in columns), strict=True):
        parent = ROOT if above == ROOT else merged[above]
        place = places.setdefault((parent, token), len(places))
        merged.append(place)
        if place == len(nodes):
            nodes.append(_Node(parent, 1 if parent == ROOT else nodes[parent].depth + 1, log, raw, origin))
            continue
        agreed = nodes[place]
        agreed.log = agreed.raw = max(agreed.log, log)
        agreed.origin = origin_of(Method.BOTH, is_sampled(origin))


def _settle_agreed(nodes: list[_Node], calibration: CalibrationMaps) -> None:
    agreed = [node for node in nodes if method_of(node.origin) is Method.BOTH]
    if agreed and calibration.version:
        curve = calibration.curve(agreed[0].origin)  # one sequence: greedy or sampled
        for node in agreed:
            node.log = math.log(curve(math.exp(node.raw), node.depth))


def _exclude_siblings(nodes: list[_Node]) -> None:
    """Where siblings are too likely together: each drafter was sure of its own."""
    families: dict[int, list[_Node]] = defaultdict(list)
    for node in nodes:
        families[node.parent].append(node)
    for family in families.values():
        likely = [math.exp(node.log) for node in family]
        if sum(likely) > 1.0:
            for node, value in zip(family, exclusive(likely), strict=True):
                node.log = math.log(value)
