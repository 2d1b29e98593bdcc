"""EAGLE-2's trees without one of its two ideas, or both (EAGLE-2, section 4).

*Value*: nodes are expanded, and ranked in the end, by the probability of their whole path; without it by
their own confidence. *Reranking*: of all candidates the best are verified; without it those that were chosen
for expansion, `beam` in every level.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from serving.spec.growth import DynamicGrowth, Grower, Growth, Node
from serving.spec.tree import ROOT, DraftTree

FULL, NO_RERANK, CONFIDENCE, NEITHER = "full", "no rerank", "confidence only", "neither"
VARIANTS = (FULL, NO_RERANK, CONFIDENCE, NEITHER)


def growth_of(variant: str, beam: int) -> Growth:
    """Of beam * depth nodes with any variant. `full` is what the service grows."""
    if variant == FULL:
        return DynamicGrowth(beam)
    return AblatedGrowth(beam, by_value=variant == NO_RERANK, rerank=variant == CONFIDENCE)


@dataclass(frozen=True, slots=True)
class AblatedGrowth:
    """A Growth."""

    beam: int
    by_value: bool
    rerank: bool

    @property
    def width(self) -> int:
        return self.beam

    def expanded(self, max_nodes: int, max_depth: int) -> int:
        return self.beam * max(max_depth - 1, 0)

    def start(self, max_nodes: int, floor: float) -> Grower:
        return AblatedTree(self, max_nodes)


class AblatedTree:
    """All candidates of one sequence, in the order in which they were offered: parents before children."""

    def __init__(self, growth: AblatedGrowth, max_nodes: int) -> None:
        self._growth, self._max_nodes = growth, max_nodes
        self._nodes: list[Node] = []
        self._logs: list[float] = []
        self._raw: list[float] = []
        self._scores: list[float] = []
        self._frontiers: list[int] = []  # places of all nodes that were chosen for expansion

    def offer(
        self,
        parents: list[int],
        token_ids: NDArray[np.int64],
        log_q: NDArray[np.float32],
        raw: NDArray[np.float32],
    ) -> list[Node]:
        first = len(self._nodes)
        for row, parent in enumerate(parents):
            for column in np.flatnonzero(np.isfinite(log_q[row])).tolist():
                self._add(parent, int(token_ids[row, column]), log_q[row, column], raw[row, column])
        new = range(first, len(self._nodes))
        best = sorted(new, key=lambda place: -self._scores[place])[: self._growth.beam]
        self._frontiers += best
        return [self._nodes[place] for place in best]

    def tree(self, seq_id: int, base_len: int, origin: int) -> DraftTree:
        chosen = sorted(self._best() if self._growth.rerank else self._frontiers)[: self._max_nodes]
        moved = {ROOT: ROOT} | {place: index for index, place in enumerate(chosen)}
        return DraftTree.build(
            seq_id,
            base_len,
            [self._nodes[place].token_id for place in chosen],
            [moved[self._nodes[place].parent] for place in chosen],
            [self._logs[place] for place in chosen],
            [self._raw[place] for place in chosen],
            origin,
        )

    def _add(self, parent: int, token_id: int, log_q: np.float32, raw: np.float32) -> None:
        own = min(float(log_q), 0.0)
        above = self._scores[parent] if self._growth.by_value and parent != ROOT else 0.0
        self._nodes.append(Node(len(self._nodes), token_id, parent))
        self._logs.append(own)
        self._raw.append(min(float(raw), 0.0))
        self._scores.append(above + own)

    def _best(self) -> list[int]:
        """The best that hang together: a node's own confidence may be above its parent's."""
        children: dict[int, list[int]] = {}
        for node in self._nodes:
            children.setdefault(node.parent, []).append(node.place)
        chosen: list[int] = []
        waiting: list[tuple[float, int]] = []
        reached = ROOT
        while len(chosen) < self._max_nodes:
            for place in children.get(reached, ()):
                heappush(waiting, (-self._scores[place], place))
            if not waiting:
                break
            _, reached = heappop(waiting)
            chosen.append(reached)
        return chosen
