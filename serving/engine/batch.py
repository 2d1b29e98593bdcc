"""Packing one step's rows into static buffers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from serving.engine.scheduler import Decode, Prefill, StepPlan
from serving.spec.tree import DraftTree

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Batch:
    """One packed forward of R rows from S sequences: decodes (root, then tree nodes), then prompt chunks,
    then padding, which belongs to no sequence.

    token_ids, positions, slots: [R]; a slot is block * block_size + offset, where the row's KV is written.
    parents: row within the sequence's tree that a tree row continues, -1 for its root; unused for chains.
    row_start, num_new, context: [S]; rows of the sequence, and committed positions before them.
    is_chain: [S], 1 where every row continues the row before it (prompt chunks).
    done, tree_start: [S]; rows of the sequence's tree that earlier forwards computed (0 for a target, which
    computes whole trees), and the place of the tree's first row in `parents`.
    block_table: [S, max_blocks].
    logit_rows: [N], the rows whose logits are wanted: all rows of decodes, `wanted_rows` of prompt chunks.
    logit_start: first of a sequence's logit rows, -1 where it has none.
    """

    token_ids: Ints
    positions: Ints
    slots: Ints
    parents: Ints
    row_start: Ints
    num_new: Ints
    context: Ints
    is_chain: Ints
    done: Ints
    tree_start: Ints
    block_table: Ints
    logit_rows: Ints
    logit_start: Ints

    @property
    def num_rows(self) -> int:
        return len(self.token_ids)

    @property
    def num_seqs(self) -> int:
        return len(self.row_start)


def wanted_rows(chunk: Prefill) -> int:
    """How many of a chunk's rows need logits, the last ones: all for prompt log-probabilities, else the one
    that ends a prompt."""
    return chunk.length if chunk.seq.wants_prompt_logits else int(chunk.last)


class Buckets:
    """Row counts that a forward may have, few enough for a captured graph each: 1, 2, 4, 8, then four to each
    doubling (10, 12, 14, 16, 20, ...), so that at most a fifth of a larger forward is padding.
    """

    def __init__(self, max_rows: int) -> None:
        sizes, size = [], 1
        while size < max_rows:
            sizes.append(size)
            size += size if size < 8 else 2 ** (size.bit_length() - 3)
        self._sizes = [*sizes, max_rows]

    def __call__(self, rows: int) -> int:
        return self._sizes[bisect_left(self._sizes, rows)]


def exact(rows: int) -> int:
    """No padding: for kernels that are called anew every step and do not care."""
    return rows


class Packer:
    """Fills the same arrays every step: addresses stay put, so a captured graph can read them.

    Rows are padded to `bucket(rows)`; padding belongs to no sequence, and its KV goes to `scratch_slot`.
    """

    def __init__(
        self,
        max_rows: int,
        max_seqs: int,
        max_blocks: int,
        block_size: int,
        bucket: Callable[[int], int] = exact,
        scratch_slot: int = 0,
    ) -> None:
        self.block_size, self.scratch_slot = block_size, scratch_slot
        self._bucket = bucket
        # token_ids, positions, slots, parents, logical slot, sequence of the row, logit_rows
        self._rows = np.zeros((7, max_rows), np.int32)
        # row_start, num_new, context, is_chain, logit_start, done (always 0)
        self._seqs = np.zeros((6, max_seqs), np.int32)
        self._block_table = np.zeros((max_seqs, max_blocks), np.int32)
        self._arange = np.arange(max_rows, dtype=np.int32)

    def pack(self, plan: StepPlan, trees: Seq[DraftTree]) -> Batch:
        """trees[i] is what plan.decodes[i] verifies, possibly empty."""
        row = logits = index = 0
        for decode, tree in zip(plan.decodes, trees, strict=True):
            rows = self._pack_tree(row, decode, tree)
            self._pack_seq(index, decode.seq.block_table, row, rows, decode.seq.num_computed, chain=rows == 1)
            logits = self._want_logits(index, logits, row, rows)
            row, index = row + rows, index + 1
        for chunk in plan.prefills:
            self._pack_chunk(row, chunk)
            self._pack_seq(index, chunk.seq.block_table, row, chunk.length, chunk.start, chain=True)
            wanted = wanted_rows(chunk)
            logits = self._want_logits(index, logits, row + chunk.length - wanted, wanted)
            row, index = row + chunk.length, index + 1
        return self._finish(row, index, logits)

    def _pack_tree(self, row: int, decode: Decode, tree: DraftTree) -> int:
        assert len(tree) <= decode.max_draft
        end = row + 1 + len(tree)
        token_ids, positions, _, parents, logical, _, _ = self._rows
        base = decode.seq.num_computed
        token_ids[row], positions[row], parents[row] = decode.seq.root, base, -1
        if len(tree):
            token_ids[row + 1 : end] = tree.token_ids
            positions[row + 1 : end] = tree.positions
            parents[row + 1 : end] = tree.parents + 1
        # Siblings share a position but not a slot: nodes lie behind the root in the order of the tree.
        logical[row:end] = self._arange[: end - row] + base
        return end - row

    def _pack_chunk(self, row: int, chunk: Prefill) -> None:
        end, stop = row + chunk.length, chunk.start + chunk.length
        self._rows[0, row:end] = chunk.seq.token_ids[chunk.start : stop]
        self._rows[1, row:end] = self._rows[4, row:end] = self._arange[: chunk.length] + chunk.start

    def _pack_seq(self, index: int, table: list[int], row: int, rows: int, context: int, chain: bool) -> None:
        self._seqs[:4, index] = row, rows, context, chain
        self._block_table[index, : len(table)] = table
        self._rows[5, row : row + rows] = index

    def _want_logits(self, index: int, logits: int, row: int, rows: int) -> int:
        self._seqs[4, index] = logits if rows else -1
        self._rows[6, logits : logits + rows] = self._arange[row : row + rows]
        return logits + rows

    def _finish(self, rows: int, seqs: int, logits: int) -> Batch:
        token_ids, positions, slots, parents, logical, owner, logit_rows = self._rows
        block, offset = np.divmod(logical[:rows], self.block_size)
        slots[:rows] = self._block_table[owner[:rows], block] * self.block_size + offset
        row_start, num_new, context, is_chain, logit_start, done = self._seqs[:, :seqs]
        padded = self._bucket(rows)
        token_ids[rows:padded] = positions[rows:padded] = 0
        slots[rows:padded] = self.scratch_slot
        return Batch(
            token_ids[:padded],
            positions[:padded],
            slots[:padded],
            parents[:padded],
            row_start,
            num_new,
            context,
            is_chain,
            done,
            row_start,
            self._block_table[:seqs],
            logit_rows[:logits],
            logit_start,
        )
