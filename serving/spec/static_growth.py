"""Trees of one shape whatever the context is, as EAGLE-1 and Medusa grow them: kept for comparison."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from serving.spec.growth import Grower, Node
from serving.spec.tree import ROOT, DraftTree

Path = tuple[int, ...]
"""A node by the ranks, likeliest child 0, on the way to it."""

# Rough acceptance of a node's children by rank, for the built-in shape: the first, and from one to the next.
FIRST, DECAY = 0.6, 0.35


@dataclass(frozen=True)
class StaticGrowth:
    """paths: every node of the shape, parents included, in any order. Path values play no part."""

    paths: tuple[Path, ...]
    children: dict[Path, list[int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        assert self.paths
        assert len(set(self.paths)) == len(self.paths)
        children: dict[Path, list[int]] = defaultdict(list)
        for path in sorted(self.paths):
            assert path[:-1] == () or path[:-1] in self.paths, "a node without its parent"
            children[path[:-1]].append(path[-1])
        object.__setattr__(self, "children", dict(children))

    @property
    def width(self) -> int:
        return 1 + max(path[-1] for path in self.paths)

    def expanded(self, max_nodes: int, max_depth: int) -> int:
        return sum(1 for path in self.children if 0 < len(path) < max_depth)

    def start(self, max_nodes: int, floor: float) -> Grower:
        return StaticTree(self, max_nodes)


class StaticTree:
    """Nodes of one sequence in the shape's places."""

    def __init__(self, shape: StaticGrowth, max_nodes: int) -> None:
        self._shape, self._max_nodes = shape, max_nodes
        self._paths: list[Path] = []
        self._tokens: list[int] = []
        self._parents: list[int] = []
        self._logs: list[float] = []
        self._raw: list[float] = []

    def offer(
        self,
        parents: list[int],
        token_ids: NDArray[np.int64],
        log_q: NDArray[np.float32],
        raw: NDArray[np.float32],
    ) -> list[Node]:
        first = len(self._paths)
        for row, parent in enumerate(parents):
            above = () if parent == ROOT else self._paths[parent]
            for rank in self._shape.children[above]:
                if rank < log_q.shape[1] and np.isfinite(log_q[row, rank]):
                    self._paths.append((*above, rank))
                    self._tokens.append(int(token_ids[row, rank]))
                    self._parents.append(parent)
                    self._logs.append(min(float(log_q[row, rank]), 0.0))
                    self._raw.append(min(float(raw[row, rank]), 0.0))
        new = range(first, len(self._paths))
        inner = [place for place in new if self._paths[place] in self._shape.children]
        return [Node(place, self._tokens[place], self._parents[place]) for place in inner]

    def tree(self, seq_id: int, base_len: int, origin: int) -> DraftTree:
        nodes = (self._tokens, self._parents, self._logs, self._raw, origin)
        grown = DraftTree.build(seq_id, base_len, *nodes)
        return grown[: self._max_nodes]


def likely_paths(count: int, depth: int) -> tuple[Path, ...]:
    """The `count` paths of at most `depth` that are likeliest when acceptance depends on the rank alone."""
    best: list[Path] = []
    waiting: list[tuple[float, Path]] = [(-FIRST, (0,))]
    while waiting and len(best) < count:
        value, path = heappop(waiting)
        best.append(path)
        heappush(waiting, (value * DECAY, (*path[:-1], path[-1] + 1)))
        if len(path) < depth:
            heappush(waiting, (value * FIRST, (*path, 0)))
    return tuple(best)


def static_growth(paths: Iterable[Iterable[int]] | None) -> StaticGrowth:
    """The shape of `paths`; None: 25 nodes in five levels, the size of EAGLE-1's tree."""
    return StaticGrowth(likely_paths(25, 5) if paths is None else tuple(tuple(path) for path in paths))
