"""Several drafters' trees of one sequence as one."""

from __future__ import annotations

from collections.abc import Sequence

from serving.spec.tree import ROOT, DraftTree


def merge(trees: Sequence[DraftTree], max_nodes: int) -> DraftTree:
    """The best `max_nodes` of the union of paths; a node both know keeps the higher confidence.

    Not the sum: two drafters that agree have mostly seen the same thing.
    """
    assert trees
    assert len({(tree.seq_id, tree.base_len) for tree in trees}) == 1
    places: dict[tuple[int, int], int] = {}
    logs: list[float] = []
    for tree in trees:
        merged: list[int] = []  # place in the union of each of this tree's nodes
        nodes = zip(tree.token_ids.tolist(), tree.parents.tolist(), tree.log_confidence.tolist(), strict=True)
        for token, parent, log in nodes:
            edge = (ROOT if parent == ROOT else merged[parent], token)
            place = places.setdefault(edge, len(places))
            if place == len(logs):
                logs.append(log)
            else:
                logs[place] = max(logs[place], log)
            merged.append(place)
    parents, tokens = zip(*places, strict=True) if places else ((), ())
    return DraftTree.build(trees[0].seq_id, trees[0].base_len, tokens, parents, logs)[:max_nodes]
