"""Packing a drafter's rows into the batch that attention reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.engine.batch import Batch


class DraftRows(NamedTuple):
    """New rows of one sequence: tokens at positions, in the slots from context + done on.

    parents: for each row of the tree, those done before included, which row it continues; None: a chain.
    """

    block_table: list[int]
    token_ids: list[int]
    positions: list[int]
    context: int
    done: int
    parents: list[int] | None


def pack_rows(rows: Sequence[DraftRows], block_size: int) -> Batch:
    counts = np.array([len(r.token_ids) for r in rows], np.int32)
    table = np.zeros((len(rows), max(len(r.block_table) for r in rows)), np.int32)
    for index, r in enumerate(rows):
        table[index, : len(r.block_table)] = r.block_table
    logical = [r.context + r.done + i for r in rows for i in range(len(r.token_ids))]
    block, offset = np.divmod(np.array(logical, np.int32), block_size)
    owner = np.repeat(np.arange(len(rows)), counts)
    trees = [[] if r.parents is None else r.parents for r in rows]
    return Batch(
        token_ids=_ints(t for r in rows for t in r.token_ids),
        positions=_ints(p for r in rows for p in r.positions),
        slots=(table[owner, block] * block_size + offset).astype(np.int32),
        parents=_ints([*(p for tree in trees for p in tree), 0]),
        row_start=_starts(counts.tolist()),
        num_new=counts,
        context=_ints(r.context for r in rows),
        is_chain=_ints(r.parents is None for r in rows),
        done=_ints(r.done for r in rows),
        tree_start=_starts([len(tree) for tree in trees]),
        block_table=table,
        logit_rows=_ints(()),
        logit_start=_ints(()),
    )


def _ints(values: Iterable[int]) -> NDArray[np.int32]:
    return np.fromiter(values, np.int32)


def _starts(counts: list[int]) -> NDArray[np.int32]:
    return _ints(accumulate(counts[:-1], initial=0))
