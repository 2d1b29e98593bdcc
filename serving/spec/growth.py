"""Growing a draft tree level by level: where its nodes come from is the drafter's business."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from serving.spec.tree import ROOT, DraftTree


class Node(NamedTuple):
    """A node to expand: its place in the growing tree, its token, and its parent's place (or ROOT)."""

    place: int
    token_id: int
    parent: int


class Grower(Protocol):
    """One tree while it grows."""

    def offer(
        self,
        parents: list[int],
        token_ids: NDArray[np.int64],
        log_q: NDArray[np.float32],
        raw: NDArray[np.float32],
    ) -> list[Node]:
        """Add children of `parents`, [len(parents), width] each, likeliest first, and name those to expand.

        Trees grow by `log_q`, the calibrated log-confidence; `raw` is kept beside it. Children that are not
        finite are ignored (case S12).
        """
        ...

    def tree(self, seq_id: int, base_len: int, origin: int) -> DraftTree:
        """The best `max_nodes` of all levels. origin: of all confidences."""
        ...


class Growth(Protocol):
    """How trees grow."""

    @property
    def width(self) -> int:
        """Children that are asked of a node."""
        ...

    def expanded(self, max_nodes: int, max_depth: int) -> int:
        """The most nodes that are expanded below the root."""
        ...

    def start(self, max_nodes: int, floor: float) -> Grower:
        """A tree of `max_nodes` nodes. floor: the least path value worth a node."""
        ...


@dataclass(frozen=True, slots=True)
class DynamicGrowth:
    """Expand the `beam` best nodes of each level, rerank all (EAGLE-2, section 4.1).

    least_reach: of the next level. What a level can add is at most the chance that its parents are reached,
    and drafting it costs the same whatever that is.
    """

    beam: int
    least_reach: float = 0.0

    @property
    def width(self) -> int:
        return self.beam

    def expanded(self, max_nodes: int, max_depth: int) -> int:
        return min(self.beam, max_nodes) * max(max_depth - 1, 0)

    def start(self, max_nodes: int, floor: float) -> Grower:
        return DynamicTree(self.beam, max_nodes, floor, self.least_reach)


class DynamicTree:
    """Candidates of one sequence. Only those that can still be among the best `max_nodes` are kept.

    A child is never worth more than its parent, so a node that is not among the best `max_nodes` now, or
    below `floor`, has no descendant that will be: it is dropped, and never expanded.
    """

    def __init__(self, beam: int, max_nodes: int, floor: float = 0.0, least_reach: float = 0.0) -> None:
        self._beam, self._max_nodes, self._least_reach = beam, max_nodes, least_reach
        self._least = np.log(floor) if floor > 0.0 else -np.inf
        self._tokens: list[int] = []
        self._parents: list[int] = []
        self._logs: list[float] = []
        self._raw: list[float] = []
        self._values = np.empty(0)  # log path values

    def offer(
        self,
        parents: list[int],
        token_ids: NDArray[np.int64],
        log_q: NDArray[np.float32],
        raw: NDArray[np.float32],
    ) -> list[Node]:
        """At most `beam` nodes are named, best first; none where the next level is reached too rarely."""
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
        self._raw += np.minimum(raw.ravel()[order], 0.0).tolist()
        self._values = np.concatenate((self._values, values[order]))
        if np.exp(values[order[: self._beam]]).sum() < self._least_reach:
            return []
        best = zip(range(first, first + self._beam), tokens, owners, strict=False)
        return [Node(*node) for node in best]

    def tree(self, seq_id: int, base_len: int, origin: int) -> DraftTree:
        nodes = (self._tokens, self._parents, self._logs, self._raw, origin)
        grown = DraftTree.build(seq_id, base_len, *nodes)
        return grown[: self._max_nodes]

    def _threshold(self, new: NDArray[np.float64]) -> float:
        """The least log value that is still among the best."""
        every = np.concatenate((self._values, new))
        if len(every) <= self._max_nodes:
            return float(self._least)
        kth = np.partition(every, len(every) - self._max_nodes)[len(every) - self._max_nodes]
        return float(max(kth, self._least))
