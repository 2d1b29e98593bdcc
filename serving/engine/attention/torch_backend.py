"""Attention in plain torch: the reference, and what runs on devices without kernels of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from serving.engine.attention.base import rope_table
from serving.engine.batch import Batch
from serving.models.architecture import Architecture
from serving.models.decoder import HeadNorms


class _Group(NamedTuple):
    """Rows of one sequence: slots of all it may see [N], additive mask [rows, N]; drafted: a tree."""

    rows: slice
    slots: Tensor
    mask: Tensor
    drafted: bool


class TorchAttention:
    """Keys and values [layers, slots, kv heads, D]. Sequences are attended one after the other."""

    def __init__(
        self,
        architecture: Architecture,
        norms: Sequence[HeadNorms | None],
        *,
        num_blocks: int,
        block_size: int,
        max_model_len: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        a = architecture
        # One block more than is handed out: where the KV of padding rows goes.
        shape = (a.num_layers, (num_blocks + 1) * block_size, a.num_kv_heads, a.head_dim)
        self._keys = torch.zeros(shape, dtype=dtype, device=device)
        self._values = torch.zeros(shape, dtype=dtype, device=device)
        self._architecture, self._norms = a, norms
        self._block_size, self._device, self._dtype = block_size, device, dtype
        self._rope = rope_table(a, max_model_len).to(device)
        self._groups: list[_Group] = []

    def begin(self, batch: Batch) -> None:
        rope = self._rope[self._tensor(batch.positions)].unsqueeze(1)  # [rows, 1, D]
        self._cos, self._sin = rope.chunk(2, dim=-1)
        self._slots = self._tensor(batch.slots)
        self._groups = [group for index in range(batch.num_seqs) for group in self._groups_of(batch, index)]

    def __call__(self, layer: int, qkv: Tensor) -> Tensor:
        a = self._architecture
        heads, norms = qkv.view(len(qkv), -1, a.head_dim), self._norms[layer]
        query, key, value = torch.split(heads, [a.num_heads, a.num_kv_heads, a.num_kv_heads], dim=1)
        if norms is not None:
            query = F.rms_norm(query, norms.query.shape, norms.query, a.rms_norm_eps)
            key = F.rms_norm(key, norms.key.shape, norms.key, a.rms_norm_eps)
        query = self._rotate(query)
        keys, values = self._keys[layer], self._values[layer]
        keys[self._slots] = self._rotate(key)
        values[self._slots] = value
        out = qkv.new_zeros(len(qkv), a.num_heads * a.head_dim)  # of padding rows, too
        for g in self._groups:
            out[g.rows] = self._attend_group(g, query[g.rows], keys[g.slots], values[g.slots])
        return out

    def move_slots(self, source: NDArray[np.int32], target: NDArray[np.int32]) -> None:
        """Ascending paths: no source is overwritten before it is read, so one gather does it."""
        at, to = self._tensor(source), self._tensor(target)
        for cache in (self._keys, self._values):
            cache[:, to] = cache[:, at]

    def _rotate(self, x: Tensor) -> Tensor:
        first, second = x.float().chunk(2, dim=-1)
        turned = (first * self._cos - second * self._sin, second * self._cos + first * self._sin)
        return torch.cat(turned, dim=-1).to(self._dtype)

    def _attend_group(self, group: _Group, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """A mask does not stop NaN: a draft that is not finite must reach its descendants and nobody else."""
        if not group.drafted:
            return self._attend(query, keys, values, group.mask)
        finite = (keys.isfinite() & values.isfinite()).all(-1).all(-1)  # [N]
        usable = finite[:, None, None]
        out = self._attend(query, keys.where(usable, 0), values.where(usable, 0), group.mask)
        spoilt = ((group.mask == 0) & ~finite).any(-1, keepdim=True)  # [rows, 1]
        return out.masked_fill(spoilt, float("nan"))

    def _attend(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """query [T, H, D], keys and values [N, KV, D], mask [T, N] -> [T, H * D].

        The query heads of a group are folded into the query length, so that keys need not be repeated.
        """
        rows, kv_heads = len(query), keys.shape[1]
        folded = query.view(rows, kv_heads, -1, query.shape[-1]).permute(1, 2, 0, 3)  # [KV, G, T, D]
        group = folded.shape[1]
        out = F.scaled_dot_product_attention(
            folded.flatten(1, 2), keys.transpose(0, 1), values.transpose(0, 1), mask.repeat(group, 1)
        )  # [KV, G * T, D]
        return out.view(kv_heads, group, rows, -1).permute(2, 0, 1, 3).reshape(rows, -1)

    def _groups_of(self, batch: Batch, index: int) -> list[_Group]:
        """All rows of a sequence together."""
        start, seen, slots = batch.row_start[index], *_seen(batch, index, self._block_size)
        mask = torch.zeros(seen.shape, dtype=self._dtype, device=self._device)
        mask.masked_fill_(~torch.from_numpy(seen).to(self._device), float("-inf"))
        rows = slice(start, start + len(seen))
        return [_Group(rows, self._tensor(slots), mask, drafted=not batch.is_chain[index])]

    def _tensor(self, array: NDArray[np.int32] | NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(array.astype(np.int64)).to(self._device)


class RowInvariantAttention(TorchAttention):
    """Every row by itself, over the keys that it sees in their logical order.

    Alone or in a batch, in a chunk or a tree, it is then the same computation: of the same shape, in the same
    order. Slow for many rows.
    """

    def _groups_of(self, batch: Batch, index: int) -> list[_Group]:
        start, seen, slots = batch.row_start[index], *_seen(batch, index, self._block_size)
        return [self._alone(start + row, slots[sees]) for row, sees in enumerate(seen)]

    def _alone(self, row: int, slots: NDArray[np.int64]) -> _Group:
        """No draft is among the keys but its own ancestors."""
        mask = torch.zeros(1, len(slots), dtype=self._dtype, device=self._device)
        return _Group(slice(row, row + 1), self._tensor(slots), mask, drafted=False)


class _Seen(NamedTuple):
    """rows: bool [T, N], which of a sequence's N keys each of its new rows sees. slots: [N], of the keys."""

    rows: NDArray[np.bool_]
    slots: NDArray[np.int64]


def _seen(batch: Batch, index: int, block_size: int) -> _Seen:
    visible = visible_rows(batch, index)
    committed = np.ones((len(visible), int(batch.context[index])), np.bool_)
    seen = np.concatenate((committed, visible), axis=1)
    block, offset = np.divmod(np.arange(seen.shape[1]), block_size)
    return _Seen(seen, batch.block_table[index, block] * block_size + offset)


def visible_rows(batch: Batch, index: int) -> NDArray[np.bool_]:
    """bool [T, done + T]: which rows of its tree each new row sees: itself, its ancestors."""
    start, done, rows = batch.tree_start[index], int(batch.done[index]), int(batch.num_new[index])
    if batch.is_chain[index]:
        return np.tri(rows, done + rows, done, dtype=np.bool_)
    seen = np.eye(done + rows, dtype=np.bool_)
    for row, parent in enumerate(batch.parents[start : start + done + rows].tolist()):
        if parent >= 0:
            seen[row] |= seen[parent]
    return seen[done:]
