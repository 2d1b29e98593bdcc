"""DraftTree: draft tokens of one sequence, ordered so that every prefix is itself a connected tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

ROOT = -1
"""Parent of the first level: the last committed token, whose KV does not exist yet."""


@dataclass(frozen=True, slots=True, eq=False)
class DraftTree:
    """Draft tokens under the root of one sequence.

    A node's *path value* V is the product of the confidences from the root to it: the probability that the
    whole path is accepted. Nodes are sorted by (-V, depth, index). V never rises along a path, so a parent
    comes before its children, and the m nodes worth most are `tree[:m]` (EAGLE-2, section 4, without its
    step of adding ancestors back).

    base_len: committed tokens of the sequence, the root included.
    token_ids: int32 [n].
    parents: int32 [n], parents[i] < i, ROOT for the first level. Siblings have distinct tokens.
    log_confidence: float32 [n], log P(node accepted | parent accepted), finite and <= 0.
    raw: float32 [n], the drafter's own log-confidence, which `log_confidence` was calibrated from.
    origins: uint8 [n], by which of the calibration's maps (see spec/calibration.py).
    """

    seq_id: int
    base_len: int
    token_ids: NDArray[np.int32]
    parents: NDArray[np.int32]
    log_confidence: NDArray[np.float32]
    raw: NDArray[np.float32]
    origins: NDArray[np.uint8]

    def __post_init__(self) -> None:
        n = len(self.token_ids)
        assert self.base_len >= 1
        assert self.token_ids.dtype == np.int32
        assert self.parents.dtype == np.int32
        assert self.log_confidence.dtype == np.float32
        assert self.raw.dtype == np.float32
        assert self.origins.dtype == np.uint8
        assert self.parents.shape == self.log_confidence.shape == self.raw.shape == self.origins.shape == (n,)
        if not n:
            return
        assert all(-np.inf < c <= 0.0 for c in self.log_confidence.tolist()), "a confidence is not in (0, 1]"
        assert (self.raw <= 0.0).all(), "a raw confidence is above 1, or none"
        assert all(ROOT <= parent < i for i, parent in enumerate(self.parents.tolist()))
        assert len(self.edges()) == n, "siblings must be distinct"
        keys = list(zip((-self.log_path_values).tolist(), self.depths.tolist(), strict=True))
        assert all(keys[i] <= keys[i + 1] for i in range(n - 1)), "nodes are not in order of value"

    @classmethod
    def empty(cls, seq_id: int, base_len: int) -> DraftTree:
        """No node: what plain decoding has of every sequence in every step, so it costs next to nothing."""
        return cls(seq_id, base_len, _NO_TOKENS, _NO_TOKENS, _NO_LOGS, _NO_LOGS, _NO_ORIGINS)

    @classmethod
    def build(
        cls,
        seq_id: int,
        base_len: int,
        token_ids: ArrayLike,
        parents: ArrayLike,
        log_confidence: ArrayLike,
        raw: ArrayLike | None = None,
        origins: ArrayLike = 0,
    ) -> DraftTree:
        """A tree of candidates [n] in any order that has parents before their children.

        raw None: `log_confidence` is. origins: of each, or one of all.
        """
        tokens = np.asarray(token_ids, np.int32)
        above = np.asarray(parents, np.int32)
        confidence = np.asarray(log_confidence, np.float32)
        own = confidence if raw is None else np.asarray(raw, np.float32)
        maps = np.broadcast_to(np.asarray(origins, np.uint8), tokens.shape)
        order = np.lexsort((_depths(above), -_path_sums(above, confidence)))
        above = _reindexed(above, order)
        return cls(seq_id, base_len, tokens[order], above, confidence[order], own[order], maps[order])

    def __len__(self) -> int:
        return len(self.token_ids)

    def __getitem__(self, prefix: slice) -> DraftTree:
        """The first nodes, `tree[:m]`; no other slice is a tree."""
        assert prefix.start is None
        assert prefix.step is None
        if prefix.stop is None or prefix.stop >= len(self):
            return self
        return DraftTree(
            self.seq_id,
            self.base_len,
            self.token_ids[prefix],
            self.parents[prefix],
            self.log_confidence[prefix],
            self.raw[prefix],
            self.origins[prefix],
        )

    @property
    def depths(self) -> NDArray[np.int32]:
        """int32 [n]; the root's children have depth 1."""
        return _depths(self.parents)

    @property
    def positions(self) -> NDArray[np.int32]:
        """int32 [n]: absolute position of each node; the root's is base_len - 1."""
        return self.depths + np.int32(self.base_len - 1)

    @property
    def log_path_values(self) -> NDArray[np.float64]:
        """float64 [n]: log V, never rising from one node to the next."""
        return _path_sums(self.parents, self.log_confidence)

    @property
    def path_values(self) -> NDArray[np.float64]:
        """float64 [n]: V, the probability in (0, 1] that the path down to the node is accepted."""
        return np.exp(self.log_path_values)

    def edges(self) -> dict[tuple[int, int], int]:
        """(parent, token) -> the child that continues `parent` with `token`."""
        links = zip(self.parents.tolist(), self.token_ids.tolist(), strict=True)
        return {link: child for child, link in enumerate(links)}

    def continues(self, node: int) -> bool:
        """Whether anything was drafted below `node` (or ROOT)."""
        return bool((self.parents == node).any())

    def ancestor_mask(self) -> NDArray[np.bool_]:
        """bool [n, n]: mask[i, j] says that node i sees node j, itself or an ancestor."""
        mask = np.eye(len(self), dtype=np.bool_)
        for node, parent in enumerate(self.parents.tolist()):
            if parent != ROOT:
                mask[node] |= mask[parent]
        return mask

    def pruned(self, keep: NDArray[np.bool_]) -> DraftTree:
        """The tree without the nodes where keep [n] is False, and without what hangs below them."""
        assert keep.shape == (len(self),)
        alive: list[bool] = []
        for wanted, parent in zip(keep.tolist(), self.parents.tolist(), strict=True):
            alive.append(wanted and (parent == ROOT or alive[parent]))
        if all(alive):
            return self
        order = np.flatnonzero(alive)
        return DraftTree(
            self.seq_id,
            self.base_len,
            self.token_ids[order],
            _reindexed(self.parents, order),
            self.log_confidence[order],
            self.raw[order],
            self.origins[order],
        )


_NO_TOKENS = np.empty(0, np.int32)
_NO_LOGS = np.empty(0, np.float32)
_NO_ORIGINS = np.empty(0, np.uint8)


def _depths(parents: NDArray[np.int32]) -> NDArray[np.int32]:
    depths: list[int] = []
    for parent in parents.tolist():
        depths.append(1 if parent == ROOT else depths[parent] + 1)
    return np.array(depths, np.int32)


def _path_sums(parents: NDArray[np.int32], logs: NDArray[np.float32]) -> NDArray[np.float64]:
    """Sum of `logs` from the root to each node, in float64: adding a number <= 0 never raises a sum."""
    sums: list[float] = []
    for parent, log in zip(parents.tolist(), logs.tolist(), strict=True):
        sums.append(log if parent == ROOT else sums[parent] + log)
    return np.array(sums, np.float64)


def _reindexed(parents: NDArray[np.int32], order: NDArray[np.intp]) -> NDArray[np.int32]:
    """`parents` of the nodes in `order`, as indices into `order`."""
    place = np.full(len(parents) + 1, ROOT, np.int32)  # the last entry answers for parent ROOT
    place[order] = np.arange(len(order), dtype=np.int32)
    return place[parents[order]]
