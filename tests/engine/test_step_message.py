"""What follows rank 0 sees the step that rank 0 sees."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from packing import pack, sequence

from serving.engine.batch import Batch, Packer
from serving.engine.scheduler import Prefill
from serving.engine.step_message import StepMessage, decode, encode
from serving.spec.tree import DraftTree

BLOCK = 4
TREE = DraftTree.build(0, 7, [20, 21, 22], [-1, -1, 0], np.zeros(3))


def step() -> Batch:
    """A tree, a plain row, a chunk; padded."""
    sizes = {"max_rows": 32, "max_seqs": 4, "max_blocks": 50, "block_size": BLOCK}
    packer = Packer(**sizes, bucket=lambda rows: rows + 3, scratch_slot=99)
    decodes = [
        (sequence(range(100, 107), computed=6, table=[5, 2, 8]), TREE),
        (sequence([7, 8], computed=1, table=[3]), DraftTree.empty(0, 2)),
    ]
    return pack(packer, decodes, [Prefill(sequence(range(50, 60), computed=3, table=[1, 4, 6]), 3, 4)])


def test_a_message_says_all_of_a_step() -> None:
    batch = step()
    source, target = np.array([8, 9], np.int32), np.array([5, 6], np.int32)
    received = decode(encode(StepMessage(batch, source, target), BLOCK), BLOCK)
    assert received.source.tolist() == [8, 9]
    assert received.target.tolist() == [5, 6]
    for field in fields(Batch):
        ours, theirs = getattr(received.batch, field.name), getattr(batch, field.name)
        assert ours.dtype == np.int32, field.name
        assert ours.flags.c_contiguous, field.name
        if field.name != "block_table":
            np.testing.assert_array_equal(ours, theirs, field.name)
    assert received.batch.block_table.shape == (3, 50)
    known = [row[:4].tolist() for row in received.batch.block_table]
    assert known == [[5, 2, 8, 0], [3, 0, 0, 0], [1, 4, 0, 0]]


def test_a_message_is_as_long_as_what_it_says() -> None:
    """Not as long as the longest context would need."""
    none = np.empty(0, np.int32)
    assert encode(StepMessage(step(), none, none), BLOCK).nbytes < 400
