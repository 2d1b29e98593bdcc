import logging

import numpy as np
import pytest

from serving.config import SpeculationConfig
from serving.drafting.colocated import ColocatedChannel
from serving.drafting.messages import Close, Extend, Open, Proposal, Propose, SeqKey
from serving.drafting.prompt_lookup import PromptLookupDrafter
from serving.spec.tree import DraftTree

KEY = SeqKey("v", 4)
OPEN = Open(KEY, "any model", 0, 0, 0.0)
PROPOSE = Propose((Extend(KEY, 0, 5, np.array([2, 3, 1, 2], np.int32), 1),), (8,), (8,))


class Broken:
    """A drafter whose `fault` comes out wherever it is called."""

    def __init__(self, fault):
        self.fault = fault

    def open(self, message):
        if message.key.seq_id == 13:
            self.fault()

    def propose(self, message):
        return self.fault()

    def close(self, message):
        self.fault()


def crash():
    raise RuntimeError("out of memory")


def draft_nan():
    tree = DraftTree.build(4, 5, [3], [-1], [float("nan")])
    return Proposal((tree,), (), 0.0)


def test_proposes_what_its_drafter_drafts():
    channel = ColocatedChannel(PromptLookupDrafter(SpeculationConfig()))
    channel.submit([OPEN], PROPOSE)
    answer = channel.collect()
    assert answer.trees[0].token_ids.tolist() == [3, 1, 2]
    channel.close(Close((KEY,)))
    channel.submit([], PROPOSE)
    assert channel.collect().unknown == (KEY,)


@pytest.mark.parametrize("fault", [crash, draft_nan])
def test_a_fault_costs_the_trees_and_nothing_else(fault, caplog):
    """S12 and fail closed: every sequence is to be opened again."""
    channel = ColocatedChannel(Broken(fault))
    for opens in ([OPEN], [Open(SeqKey("v", 13), "any model", 0, 0, 0.0)]):
        channel.submit(opens, PROPOSE)
        assert channel.collect() == Proposal((), (KEY,), 0.0)
    channel.close(Close((KEY,)))
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 3


def test_rounds_are_collected_once_each_in_their_order():
    channel = ColocatedChannel(PromptLookupDrafter(SpeculationConfig()))
    channel.submit([OPEN], PROPOSE)
    channel.submit([], PROPOSE)  # not where the drafter stands any more
    assert channel.collect().trees
    assert channel.collect().unknown == (KEY,)
    with pytest.raises(AssertionError):
        channel.collect()
