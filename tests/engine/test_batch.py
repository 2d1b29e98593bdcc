"""Packed rows, written out in full for a small step."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from packing import chain_tree, pack, sequence

from serving.engine.batch import Batch, Buckets, Packer
from serving.engine.scheduler import Decode, Prefill, StepPlan
from serving.engine.sequence import Sequence
from serving.spec.tree import DraftTree
from serving.types import GenerationRequest, SamplingParams


def packer() -> Packer:
    return Packer(max_rows=32, max_seqs=4, max_blocks=3, block_size=4)


#  The tree:  root - 20 - 22 - 24
#                 \- 21 - 23
TREE = DraftTree.build(
    0, 7, [20, 21, 22, 23, 24], [-1, -1, 0, 1, 2], np.log([0.6, 0.5, 0.8, 0.9, 0.9]).astype(np.float32)
)


def test_a_step_in_full() -> None:
    speculating = sequence(range(100, 107), computed=6, table=[5, 2, 8])
    plain = sequence([7, 8], computed=1, table=[0])
    unfinished = sequence(range(50, 60), computed=3, table=[1, 3, 4])
    finishing = sequence(range(60, 63), computed=0, table=[6])
    batch = pack(
        packer(),
        decodes=[(speculating, TREE), (plain, DraftTree.empty(0, 2))],
        prefills=[Prefill(unfinished, 3, 4), Prefill(finishing, 0, 3)],
    )
    assert (batch.num_rows, batch.num_seqs) == (14, 4)
    assert batch.token_ids.tolist() == [106, 20, 21, 22, 23, 24, 8, 53, 54, 55, 56, 60, 61, 62]
    assert batch.positions.tolist() == [6, 7, 7, 8, 8, 9, 1, 3, 4, 5, 6, 0, 1, 2]
    # Logical slots 6 .. 11 of the blocks 5, 2, 8; slot 1 of block 0; slots 3 .. 6 of 1, 3, 4; 0 .. 2 of 6.
    assert batch.slots.tolist() == [10, 11, 32, 33, 34, 35, 1, 7, 12, 13, 14, 24, 25, 26]
    assert batch.parents[:6].tolist() == [-1, 0, 0, 1, 2, 3]
    assert batch.row_start.tolist() == [0, 6, 7, 11]
    assert batch.num_new.tolist() == [6, 1, 4, 3]
    assert batch.context.tolist() == [6, 1, 3, 0]
    assert batch.is_chain.tolist() == [0, 1, 1, 1]
    assert [row[:n].tolist() for row, n in zip(batch.block_table, (3, 1, 3, 1), strict=True)] == [
        [5, 2, 8],
        [0],
        [1, 3, 4],
        [6],
    ]
    assert batch.logit_rows.tolist() == [0, 1, 2, 3, 4, 5, 6, 13]
    assert batch.logit_start.tolist() == [0, 6, -1, 7]


def test_prompt_logprobs_want_the_logits_of_every_row() -> None:
    told = SamplingParams(9, logprobs=1, prompt_logprobs=True)
    wants = Sequence.create(0, GenerationRequest("r", tuple(range(10)), told))
    wants.block_table = [0, 1, 2]
    decode = sequence([7, 8], computed=1, table=[3])
    others = [Prefill(wants, 3, 4), Prefill(sequence(range(3), computed=0, table=[4]), 0, 3)]
    batch = pack(packer(), decodes=[(decode, DraftTree.empty(0, 2))], prefills=others)
    assert batch.logit_rows.tolist() == [0, 1, 2, 3, 4, 7]
    assert batch.logit_start.tolist() == [0, 1, 5]


def test_buffers_stay_where_they_are_and_keep_nothing_of_the_last_step() -> None:
    reused, small = packer(), sequence([4, 5, 6], computed=2, table=[2])
    full = sequence(range(12), computed=11, table=[0, 1, 2])
    first = pack(reused, prefills=[Prefill(full, 0, 12), Prefill(small, 0, 3)])
    addresses = [getattr(first, field.name).ctypes.data for field in fields(Batch)]
    second = pack(reused, decodes=[(small, chain_tree(3, [7]))])
    assert [getattr(second, field.name).ctypes.data for field in fields(Batch)] == addresses
    fresh = pack(packer(), decodes=[(small, chain_tree(3, [7]))])
    for field in fields(Batch):
        again, expected = getattr(second, field.name), getattr(fresh, field.name)
        if field.name == "block_table":  # what lies behind a sequence's last block is never read
            again, expected = again[:, :1], expected[:, :1]
        np.testing.assert_array_equal(again, expected)


def test_a_tree_larger_than_its_slots_is_a_bug() -> None:
    seq = sequence(range(6), computed=5, table=[0, 1])
    with pytest.raises(AssertionError):
        packer().pack(StepPlan((Decode(seq, 2),), (), ()), [chain_tree(6, [1, 2, 3])])


# ---- padding ----


def test_buckets_are_few_and_tight() -> None:
    bucket = Buckets(512)
    sizes = sorted({bucket(rows) for rows in range(1, 513)})
    assert sizes[:12] == [1, 2, 4, 8, 10, 12, 14, 16, 20, 24, 28, 32]
    assert sizes[-1] == 512
    assert len(sizes) <= 32
    assert all(rows <= bucket(rows) for rows in range(1, 513))
    assert all(bucket(rows) <= 1.25 * rows for rows in range(8, 513))


def test_padding_rows_write_to_the_scratch_slot_and_want_nothing() -> None:
    packer = Packer(64, 4, 4, 16, Buckets(64), scratch_slot=640)
    batch = pack(packer, prefills=[Prefill(sequence(range(9), 0, [3]), 0, 9)])
    assert batch.num_rows == 10
    assert batch.slots.tolist() == [*range(48, 57), 640]
    assert batch.logit_rows.tolist() == [8]
    assert batch.num_new.tolist() == [9]
