"""What verification tells about the draft tokens of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from serving.spec.accept import VerifyResult
from serving.spec.tree import ROOT, DraftTree


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Draft tokens whose parent was accepted, [n] each: whether they were, too.

    origins: uint8, the map that their confidence belongs to. depths: from 1. raw, calibrated: float32
    log-confidences, the drafter's own and as it was sent. accepted: bool. weights: float64, positive.
    """

    origins: NDArray[np.uint8]
    depths: NDArray[np.int64]
    raw: NDArray[np.float32]
    calibrated: NDArray[np.float32]
    accepted: NDArray[np.bool_]
    weights: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.raw)

    def classes(self, depths: int) -> NDArray[np.int64]:
        """int64 [n]: origin * depths + depth class; there are `depths` of these, and the last is open."""
        return self.origins * np.int64(depths) + np.minimum(self.depths, depths) - 1

    @classmethod
    def joined(cls, parts: Sequence[Outcomes]) -> Outcomes:
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))


def outcomes_of(
    trees: Sequence[DraftTree],
    results: Sequence[VerifyResult],
    weights: NDArray[np.float64] | None = None,
) -> Outcomes:
    """The children of the nodes at which the target chose a token.

    weights: float64, of every node, one tree after the other; None: all weigh 1.

    All trees at once, for this runs in every step: in what follows tree i has a slot for its root, then one
    for each of its nodes.
    """
    sizes = np.array([len(tree) for tree in trees], np.int64)
    roots = np.cumsum(sizes + 1) - sizes - 1
    starts: list[int] = roots.tolist()
    reached = np.full(int(sizes.sum()) + len(trees), -1)  # depth of the slots on accepted paths
    reached[roots] = 0
    path = [
        start + 1 + node for start, result in zip(starts, results, strict=True) for node in result.accepted
    ]
    reached[path] = [depth for result in results for depth in range(1, len(result.accepted) + 1)]
    chosen = reached >= 0
    for start, result in zip(starts, results, strict=True):
        if result.failed:  # the row at the path's end had no usable logits
            chosen[start + 1 + (ROOT, *result.accepted)[-1]] = False

    parents = np.repeat(roots + 1, sizes) + _joined([tree.parents for tree in trees], np.int32)
    seen = np.flatnonzero(chosen[parents])
    own = np.arange(len(parents)) + np.repeat(np.arange(1, len(trees) + 1), sizes)
    return Outcomes(
        _joined([tree.origins for tree in trees], np.uint8)[seen],
        reached[parents[seen]] + 1,
        _joined([tree.raw for tree in trees], np.float32)[seen],
        _joined([tree.log_confidence for tree in trees], np.float32)[seen],
        reached[own[seen]] > 0,
        np.ones(len(seen)) if weights is None else weights[seen],
    )


def _joined(parts: Sequence[NDArray[Any]], dtype: DTypeLike) -> NDArray[Any]:
    """One array of them all; `dtype`: of what is joined from nothing."""
    return np.concatenate(parts) if parts else np.empty(0, dtype)
