"""Growing a draft tree level by level (EAGLE-2, section 4.1): expand the best, rerank all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.spec.tree import ROOT, DraftTree


class Node(NamedTuple):
    """A node to expand: its place in the growing tree, its token, and its parent's place (or ROOT)."""

    place: int
    token_id: int
    parent: int


class GrowingTree:
    """Candidates of one sequence. Only those that can still be among the best `max_nodes` are kept.

    A child is never worth more than its parent, so a node that is not among the best `max_nodes` now, or
    below `floor` (a path value), has no descendant that will be: it is dropped, and never expanded.
    """

    def __init__(self, max_nodes: int, floor: float = 0.0) -> None:
        self._max_nodes = max_nodes
        self._least = np.log(floor) if floor > 0.0 else -np.inf
        self._tokens: list[int] = []
        self._parents: list[int] = []
        self._logs: list[float] = []
        self._values = np.empty(0)  # log path values

    def offer(
        self, parents: list[int], token_ids: NDArray[np.int64], log_q: NDArray[np.float32], beam: int
    ) -> list[Node]:
        """Add the children of `parents`, [len(parents), k] each, and name those worth expanding next.

        At most `beam` nodes are named, best first. Children that are not finite are ignored (case S12).
        """
        above = np.array([0.0 if p == ROOT else self._values[p] for p in parents])
        values = (above[:, None] + np.minimum(log_q, 0.0)).ravel()
        values[~np.isfinite(values)] = -np.inf
        least = self._threshold(values)
        order = np.argsort(-values, kind="stable")[: self._max_nodes]
        order = order[(values[order] >= least) & np.isfinite(values[order])]
        first, width = len(self._tokens), token_ids.shape[1]
        tokens, logs = token_ids.ravel()[order].tolist(), log_q.ravel()[order].tolist()
        owners = [parents[i] for i in (order // width).tolist()]
        self._tokens += tokens
        self._parents += owners
        self._logs += [min(log, 0.0) for log in logs]
        self._values = np.concatenate((self._values, values[order]))
        best = zip(range(first, first + beam), tokens[:beam], owners[:beam], strict=False)
        return [Node(*node) for node in best]

    def tree(self, seq_id: int, base_len: int) -> DraftTree:
        """The best `max_nodes` of all levels."""
        grown = DraftTree.build(seq_id, base_len, self._tokens, self._parents, self._logs)
        return grown[: self._max_nodes]

    def _threshold(self, new: NDArray[np.float64]) -> float:
        """The least log value that is still among the best."""
        every = np.concatenate((self._values, new))
        if len(every) <= self._max_nodes:
            return float(self._least)
        kth = np.partition(every, len(every) - self._max_nodes)[len(every) - self._max_nodes]
        return float(max(kth, self._least))
