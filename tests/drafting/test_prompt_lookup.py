import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.config import SpeculationConfig
from serving.drafting.messages import Close, Extend, Open, Proposal, Propose, SeqKey
from serving.drafting.prompt_lookup import PromptLookupDrafter
from serving.spec.calibration import IDENTITY, CalibrationMaps, Method, origin_of
from serving.spec.tree import ROOT, DraftTree

CONFIG = SpeculationConfig(prompt_lookup_min=2, prompt_lookup_max=8, lease_s=30.0)
KEY = SeqKey("verifier-a", 1)
PASSAGE = list(range(100, 160))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def drafter(clock=None) -> PromptLookupDrafter:
    return PromptLookupDrafter(CONFIG, clock or Clock())


def extend(tokens, held=0, key=KEY) -> Extend:
    """The Extend that brings a drafter that holds `held` tokens to `tokens`."""
    start = max(held - 1, 0)
    first = tokens[0] if start == 0 else None
    return Extend(key, start, len(tokens), np.array(tokens[start + 1 :], np.int32), first)


def propose(target, *extends: Extend, max_nodes=8, max_depth=8, price=0.0) -> Proposal:
    count = len(extends)
    return target.propose(Propose(extends, (max_nodes,) * count, (max_depth,) * count, price))


def open_(target, key=KEY) -> None:
    target.open(Open(key, "any model", seed=0, choice_index=0, temperature=0.0))


def accepted(tree: DraftTree, text: list[int]) -> int:
    """Length of the tree's path along `text`."""
    edges, node, place = tree.edges(), ROOT, tree.base_len
    while place < len(text) and (node, text[place]) in edges:
        node, place = edges[node, text[place]], place + 1
    return place - tree.base_len


def follow(target, text, known, key=KEY, **limits) -> list[DraftTree]:
    """Decode `text` as a verifier would from its first `known` tokens; the trees on the way."""
    open_(target, key)
    held, trees = 0, []
    while known < len(text):
        (tree,) = propose(target, extend(text[:known], held, key), **limits).trees
        assert tree.base_len == known
        trees.append(tree)
        held, known = known, known + accepted(tree, text) + 1
    return trees


def test_copied_text_is_drafted_whole():
    text = [1, *PASSAGE, 2, 3, *PASSAGE[:30]]
    tree = follow(drafter(), text, known=len(text) - 27)[0]
    assert tree.token_ids.tolist() == PASSAGE[3:11]
    assert tree.parents.tolist() == [ROOT, 0, 1, 2, 3, 4, 5, 6]
    assert tree.seq_id == 1


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_each_sequence_is_calibrated_in_its_mode(temperature):
    target, text = drafter(), [1, *PASSAGE, 2, 3, *PASSAGE[:5]]
    values = IDENTITY.values.copy()
    values[origin_of(Method.LOOKUP, sampled=True)] **= 2
    target.open(Open(KEY, "any model", seed=0, choice_index=0, temperature=temperature))
    message = Propose((extend(text),), (1,), (1,), calibration=CalibrationMaps(1, values))
    (tree,) = target.propose(message).trees
    power = 2 if temperature else 1
    assert tree.log_confidence.tolist() == pytest.approx((power * tree.raw).tolist(), abs=0.02)
    assert tree.origins.tolist() == [origin_of(Method.LOOKUP, sampled=temperature > 0)]


def test_copying_takes_few_steps():
    text = [1, *PASSAGE, 2, 3, *PASSAGE]
    assert len(follow(drafter(), text, known=63)) <= 3 + 58 / 9


def test_nothing_alike_yields_an_empty_tree():
    target = drafter()
    open_(target)
    answer = propose(target, extend(list(range(50))))
    assert [len(tree) for tree in answer.trees] == [0]
    assert answer.unknown == ()
    assert answer.compute_s > 0.0


def pairs(hits: bool, rounds=60) -> list[int]:
    """Pairs of tokens that occur twice each. `hits`: the same token follows both times."""
    text = []
    for i in range(0, 10 * rounds, 10):
        text += [i, i + 1, i + 2, i + 3, i, i + 1, i + 2 if hits else i + 4]
    return text


@pytest.mark.parametrize("hits", [True, False])
def test_confidence_follows_what_came_true_in_other_sequences(hits):
    fresh, taught = drafter(), drafter()
    other = SeqKey("verifier-b", 9)
    follow(taught, pairs(hits), known=1, key=other)
    taught.close(Close((other,)))  # what was learned outlives the sequence
    confidence = []
    for target in (fresh, taught):
        open_(target)
        (tree,) = propose(target, extend([50, 51, 60, 300, 50, 51])).trees
        confidence.append(tree.path_values[0])
    assert (confidence[1] > confidence[0]) == hits


def test_misses_silence_it_and_hits_bring_it_back():
    """Below the price nothing is drafted, and yet it notices when matches are right again."""
    target = drafter()
    sizes = []
    for text in (pairs(hits=False), pairs(hits=True)):
        trees = follow(target, text, known=1, price=0.3)
        sizes.append([len(tree) for tree in trees if tree.base_len % 7 == 6])  # after a pair's return
    misses, hits = sizes
    assert misses[0] > 0
    assert not any(misses[-20:])
    assert hits[0] == 0
    assert hits[-1] > 0


def test_no_nodes_wanted_still_extends():
    target = drafter()
    open_(target)
    text = [1, *PASSAGE, 2, *PASSAGE[:5]]
    answer = propose(target, extend(text[:50]), max_nodes=0)
    assert [len(tree) for tree in answer.trees] == [0]
    (tree,) = propose(target, extend(text, held=50)).trees
    assert tree.token_ids.tolist() == PASSAGE[5:13]


def test_limits_are_per_sequence():
    target = drafter()
    keys = [SeqKey("v", i) for i in range(3)]
    for key in keys:
        open_(target, key)
    text = [1, *PASSAGE, 2, *PASSAGE[:5]]
    extends = tuple(extend(text, key=key) for key in keys)
    answer = target.propose(Propose(extends, (8, 3, 8), (8, 8, 2)))
    assert [len(tree) for tree in answer.trees] == [8, 3, 2]


def test_unopened_and_closed_sequences_are_unknown_and_the_others_are_served():
    target = drafter()
    other = SeqKey("verifier-b", 1)  # the same id at another verifier is another sequence
    open_(target, other)
    answer = propose(target, extend([1, 2, 3]), extend([1, 2, 3, 1, 2], key=other))
    assert answer.unknown == (KEY,)
    assert [tree.token_ids.tolist() for tree in answer.trees] == [[3, 1, 2]]
    target.close(Close((other, KEY)))
    assert propose(target, extend([1, 2, 3, 1, 2, 3], 5, other)).unknown == (other,)


@pytest.mark.parametrize("held", [3, 4, 6, 7])
def test_gap_or_overlap_is_unknown_until_opened_again(held):
    target = drafter()
    open_(target)
    propose(target, extend([1, 2, 3, 1, 2]))
    text = [1, 2, 3, 1, 2, 3, 1, 2]
    assert propose(target, extend(text, held)).unknown == (KEY,)
    assert propose(target, extend(text, 5)).unknown == (KEY,)
    open_(target)
    (tree,) = propose(target, extend(text)).trees
    assert tree.token_ids.tolist() == [3, 1, 2, 3, 1, 2]


def test_opening_again_resets():
    target = drafter()
    open_(target)
    propose(target, extend([1, 2, 3, 1, 2]))
    open_(target)
    (tree,) = propose(target, extend([9, 1, 2])).trees
    assert len(tree) == 0
    assert tree.base_len == 3


def test_a_repeated_question_gets_the_same_answer():
    target = drafter()
    open_(target)
    text = [1, 2, 3, 4, 1, 2]
    (once,) = propose(target, extend(text)).trees
    (again,) = propose(target, extend(text, held=6)).trees
    assert again.token_ids.tolist() == once.token_ids.tolist() == [3, 4, 1, 2]


def test_lease_expires_when_silent_only():
    clock = Clock()
    target = drafter(clock)
    silent, busy = KEY, SeqKey("verifier-b", 2)
    open_(target, busy)  # being opened first must not make it the first to go, nor shield the other
    open_(target, silent)
    propose(target, extend([1, 2, 3], key=busy), extend([1, 2, 3], key=silent))
    clock.now = 29.0
    assert propose(target, extend([1, 2, 3, 4], 3, busy)).unknown == ()
    clock.now = 31.0
    assert propose(target, extend([1, 2, 3, 4, 5], 4, busy)).unknown == ()
    assert propose(target, extend([1, 2, 3, 4], 3, silent)).unknown == (silent,)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=80), st.integers(0, 9), st.integers(1, 9))
def test_any_text_can_be_followed(text, max_nodes, max_depth):
    for tree in follow(drafter(), text, known=1, max_nodes=max_nodes, max_depth=max_depth, price=0.1):
        assert len(tree) <= max_nodes
        assert (tree.depths <= max_depth).all()
        assert (tree.path_values >= 0.1 - 1e-6).all()


def test_a_drafter_process_stays_without_torch():
    code = (
        "import sys, serving.drafting.prompt_lookup, serving.drafting.colocated;"
        "sys.exit(bool({'torch', 'transformers', 'ray'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
