"""What rank 0 tells the others of a step, as one array: what moved since the last one, and what runs now."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.engine.batch import Batch

Ints = NDArray[np.int32]

_OF_ROWS = ("token_ids", "positions", "slots")
_OF_SEQS = ("row_start", "num_new", "context", "is_chain", "done", "tree_start", "logit_start")
_ARRAYS = (*_OF_ROWS, "parents", *_OF_SEQS, "logit_rows")


class StepMessage(NamedTuple):
    """source, target: slots whose keys and values move before `batch` runs."""

    batch: Batch
    source: Ints
    target: Ints


def encode(message: StepMessage, block_size: int) -> Ints:
    """[length of each array, width of the block table] + arrays + of each sequence the blocks that it uses.

    Block tables are mostly empty, and as wide as the longest context: sent whole they would be the message.
    """
    batch = message.batch
    arrays = [message.source, message.target, *(getattr(batch, name) for name in _ARRAYS)]
    header = np.array([*map(len, arrays), batch.block_table.shape[1]], np.int32)
    used = zip(batch.block_table, _blocks_used(batch.context, batch.num_new, block_size), strict=True)
    return np.concatenate([header, *arrays, *(table[:count] for table, count in used)], dtype=np.int32)


def decode(ints: Ints, block_size: int) -> StepMessage:
    """The arrays are views of `ints`."""
    count = 2 + len(_ARRAYS)
    *lengths, width = ints[: count + 1].tolist()
    source, target, *arrays, blocks = np.split(ints[count + 1 :], np.cumsum(lengths))
    named = dict(zip(_ARRAYS, arrays, strict=True))
    used = _blocks_used(named["context"], named["num_new"], block_size)
    table = np.zeros((len(used), width), np.int32)
    table[np.arange(width) < used[:, None]] = blocks
    return StepMessage(Batch(**named, block_table=table), source, target)


def _blocks_used(context: Ints, num_new: Ints, block_size: int) -> Ints:
    used: Ints = -(-(context + num_new) // block_size)
    return used
