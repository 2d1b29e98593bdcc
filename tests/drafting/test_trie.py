import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.drafting.hit_rates import HitRates, Standing
from serving.drafting.suffix_index import SuffixIndex
from serving.drafting.trie import Limits, Trie
from serving.spec.calibration import IDENTITY, CalibrationMaps, Method, origin_of
from serving.spec.tree import ROOT

NO_LIMIT = Limits(max_nodes=10_000, max_depth=32, price=0.0)


def trie_of(text, rates=None):
    index = SuffixIndex(2, 8)
    index.extend(text)
    return Trie(index.tokens, index.matches(), rates or HitRates())


def paths(tree):
    found = []
    for parent, token in zip(tree.parents.tolist(), tree.token_ids.tolist(), strict=True):
        found.append((*(() if parent == ROOT else found[parent]), token))
    return found


def confidences(text, rates=None):
    tree = trie_of(text, rates).grow(0, NO_LIMIT)
    return dict(zip(paths(tree), np.exp(tree.log_confidence).tolist(), strict=True))


def test_continuations_share_their_common_start():
    #             after 1 2: 3 4 and 3 5
    tree = trie_of([1, 2, 3, 4, 8, 1, 2, 3, 5, 9, 1, 2]).grow(7, Limits(10_000, 2, 0.0))
    assert sorted(paths(tree)) == [(3,), (3, 4), (3, 5)]
    assert (tree.seq_id, tree.base_len) == (7, 12)


RATES = HitRates()


def rate(standing, length):
    return pytest.approx(RATES.rate(RATES.class_of(standing, length)), rel=1e-6)


def test_standing_of_a_single_continuation_and_its_growing_match():
    judged = confidences([1, 2, 3, 4, 5, 9, 1, 2, 3])
    assert judged[(4,)] == rate(Standing.ALONE_ONCE, 3)
    assert judged[(4, 5)] == rate(Standing.ALONE_ONCE, 4)
    assert judged[(4, 5, 9)] == rate(Standing.ALONE_ONCE, 5)


@pytest.mark.parametrize(
    ("times", "standing"),
    [(2, Standing.ALONE_TWICE), (3, Standing.ALONE_TWICE), (4, Standing.ALONE_OFTEN)],
)
def test_standing_of_agreeing_continuations(times, standing):
    text = [token for i in range(times) for token in (100 + i, 1, 2, 3)]
    assert confidences([*text, 99, 1, 2])[(3,)] == rate(standing, 2)


def scenes(*continuations):
    """After each (lead, next): the lead's tokens, then 1 2, then next; oldest first. Ends with 7 1 2."""
    text = []
    for i, (lead, following) in enumerate(continuations):
        text += [100 + i, *lead, 1, 2, following]
    return [*text, 99, 7, 1, 2]


def test_standing_of_rivals():
    judged = confidences(scenes(([7], 3), ([7], 3), ([], 4)))
    assert judged[(3,)] == rate(Standing.LEADS_CLEARLY, 3)
    assert judged[(4,)] == rate(Standing.SHORTER, 2)

    judged = confidences(scenes(([7], 3), ([], 4), ([], 4)))
    assert judged[(3,)] == rate(Standing.LEADS_BY_LENGTH, 3)
    assert judged[(4,)] == rate(Standing.SHORTER, 2)

    judged = confidences(scenes(([], 3), ([], 4), ([], 3)))
    assert judged[(3,)] == rate(Standing.LEADS_BY_VOTES, 2)
    assert judged[(4,)] == rate(Standing.SECOND, 2)

    judged = confidences(scenes(([], 3), ([], 4), ([], 5)))
    assert judged[(5,)] == rate(Standing.LEADS_BARELY, 2)  # the most recent
    assert judged[(4,)] == rate(Standing.SECOND, 2)
    assert judged[(3,)] == rate(Standing.BEHIND, 2)


def test_siblings_sum_to_at_most_one_when_all_rates_are_high():
    rates = HitRates()
    for standing in Standing:
        for _ in range(500):
            rates.observe(rates.class_of(standing, 2), True)
    judged = confidences(scenes(([], 3), ([], 4), ([], 5)), rates)
    assert judged[(3,)] + judged[(4,)] + judged[(5,)] == pytest.approx(1.0)


def test_learns_along_the_path_that_came_true_and_also_of_what_was_too_dear_to_draft():
    rates = HitRates()
    trie = trie_of([1, 2, 3, 4, 5, 9, 1, 2, 3], rates)
    assert len(trie.grow(0, Limits(10, 10, price=0.99))) == 0
    trie.learn([4, 5])
    assert rates.rate(rates.class_of(Standing.ALONE_ONCE, 3)) > RATES.rate(
        RATES.class_of(Standing.ALONE_ONCE, 3)
    )
    deeper = RATES.class_of(Standing.ALONE_ONCE, 4)
    assert rates.rate(deeper) == RATES.rate(deeper)  # 5 was never a candidate


def test_learns_from_the_first_miss_and_nothing_below_it():
    rates = HitRates()
    trie = trie_of([1, 2, 3, 4, 5, 9, 1, 2, 3], rates)
    trie.grow(0, NO_LIMIT)
    trie.learn([4, 6, 9])
    hit, miss, unseen = (rates.class_of(Standing.ALONE_ONCE, length) for length in (3, 4, 5))
    assert rates.rate(hit) > RATES.rate(hit)
    assert rates.rate(miss) < RATES.rate(miss)
    assert rates.rate(unseen) == RATES.rate(unseen)


def test_rates_that_are_not_numbers_yield_no_tree():
    """S12"""
    rates = HitRates()
    rates.observe(rates.class_of(Standing.ALONE_ONCE, 3), math.nan)
    assert len(trie_of([1, 2, 3, 4, 5, 9, 1, 2, 3], rates).grow(0, NO_LIMIT)) == 0


TEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=60)


@given(TEXTS, st.integers(1, 12), st.integers(1, 6), st.sampled_from([0.0, 0.1, 0.4]))
def test_limits_hold_and_the_tree_is_the_best_prefix(text, max_nodes, max_depth, price):
    whole = trie_of(text).grow(0, NO_LIMIT)
    tree = trie_of(text).grow(0, Limits(max_nodes, max_depth, price))
    assert len(tree) <= max_nodes
    wanted = (whole.depths <= max_depth) & (whole.path_values >= price)
    expected = whole.pruned(wanted)[:max_nodes]
    assert paths(tree) == paths(expected)
    assert tree.log_confidence.tolist() == expected.log_confidence.tolist()


def test_confidences_are_calibrated_by_mode_and_depth():
    text = [1, 2, 3, 4, 5, 9, 1, 2, 3]
    index = SuffixIndex(2, 8)
    index.extend(text)
    values = IDENTITY.values.copy()
    values[origin_of(Method.LOOKUP, sampled=True), 1] = 0.25  # depth 2
    values[origin_of(Method.LOOKUP, sampled=False), 0] **= 2
    maps = CalibrationMaps(1, values)
    raw = Trie(index.tokens, index.matches(), HitRates()).grow(0, NO_LIMIT)
    sampled = Trie(index.tokens, index.matches(), HitRates(), maps, sampled=True).grow(0, NO_LIMIT)
    greedy = Trie(index.tokens, index.matches(), HitRates(), maps).grow(0, NO_LIMIT)
    first, second, *others = np.exp(raw.raw).tolist()
    assert np.exp(sampled.log_confidence).tolist() == pytest.approx([first, 0.25, *others])
    assert np.exp(greedy.log_confidence).tolist() == pytest.approx([first**2, second, *others], abs=0.01)
    for tree in (sampled, greedy):
        assert tree.raw.tolist() == raw.log_confidence.tolist()
    assert set(sampled.origins.tolist()) == {origin_of(Method.LOOKUP, sampled=True)}
    assert set(greedy.origins.tolist()) == {origin_of(Method.LOOKUP, sampled=False)}


def test_calibrated_siblings_exclude_each_other_too():
    index = SuffixIndex(2, 8)
    index.extend(scenes(([7], 3), ([7], 3), ([], 4)))
    hopeful = CalibrationMaps(1, np.where(IDENTITY.values > 0, np.float32(0.9), np.float32(0)))
    tree = Trie(index.tokens, index.matches(), HitRates(), hopeful).grow(0, Limits(8, 1, 0.0))
    assert np.exp(tree.log_confidence).tolist() == pytest.approx([0.9, 0.1])


@given(TEXTS)
def test_every_path_followed_an_earlier_occurrence(text):
    tree = trie_of(text).grow(0, NO_LIMIT)
    joined = {tuple(text[i:j]) for i in range(len(text)) for j in range(i, len(text) + 1)}
    for path in paths(tree):
        assert (*text[-2:], *path) in joined
    for parent in range(ROOT, len(tree)):
        assert np.exp(tree.log_confidence[tree.parents == parent]).sum() <= 1.0 + 1e-6
