"""Two real drafters behind one: their candidates in one tree, their state in step."""

from __future__ import annotations

import numpy as np

from serving.config import SpeculationConfig
from serving.drafting.combined import CombinedDrafter
from serving.drafting.messages import Close, Extend, Open, Propose, SeqKey
from serving.drafting.prompt_lookup import PromptLookupDrafter

KEY = SeqKey("here", 3)
TEXT = [1, 2, 3, 4, 5, 6, 1, 2, 3]


def _drafters() -> tuple[PromptLookupDrafter, PromptLookupDrafter]:
    """One that needs three matching tokens and one that is content with one."""
    strict = SpeculationConfig(prompt_lookup_min=3)
    return PromptLookupDrafter(strict), PromptLookupDrafter(SpeculationConfig())


def _propose(text: list[int]) -> Propose:
    extend = Extend(KEY, 0, len(text), np.array(text[1:], np.int32), first_token=text[0])
    return Propose((extend,), (8,), (4,))


def test_proposes_what_any_member_proposes() -> None:
    drafter = CombinedDrafter(_drafters())
    drafter.open(Open(KEY, "any", 0, 0, 0.0))
    (tree,) = drafter.propose(_propose(TEXT)).trees
    assert tree.token_ids[:3].tolist() == [4, 5, 6]
    assert tree.base_len == len(TEXT)


def test_a_sequence_unknown_to_one_member_is_unknown() -> None:
    first, second = _drafters()
    drafter = CombinedDrafter((first, second))
    drafter.open(Open(KEY, "any", 0, 0, 0.0))
    second.close(Close((KEY,)))
    proposal = drafter.propose(_propose(TEXT))
    assert proposal.trees == ()
    assert proposal.unknown == (KEY,)


def test_close_reaches_every_member() -> None:
    drafter = CombinedDrafter(_drafters())
    drafter.open(Open(KEY, "any", 0, 0, 0.0))
    drafter.close(Close((KEY,)))
    assert drafter.propose(_propose(TEXT)).unknown == (KEY,)
