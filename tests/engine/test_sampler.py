import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from serving.config import ServeConfig
from serving.engine.log_weights import log_weights
from serving.engine.sampler import Draw, Sampler
from serving.spec.accept import NO_TOKEN, Visit, walk
from serving.spec.noise import gumbel, noise_key
from serving.spec.tree import ROOT, DraftTree
from serving.types import SamplingParams

GREEDY = SamplingParams(8, temperature=0.0)
SAMPLERS = (Sampler(), Sampler(log_weights(ServeConfig().cache_dir)))


def choose(rows, *draws: Draw) -> list[int]:
    """With numpy and with the kernels: they must agree."""
    plainly, quickly = (
        each.choose(torch.as_tensor(np.asarray(rows, np.float32)), draws) for each in SAMPLERS
    )
    assert plainly == quickly
    return quickly


def choose_one(row, params: SamplingParams, choice_index=0, position=1) -> int:
    return choose([row], Draw(params, choice_index, position))[0]


def kept(logs: np.ndarray, params: SamplingParams) -> np.ndarray:
    """Which tokens the filters keep, one after the other, by sorting everything. logs: the peak has 0."""
    keep = logs >= np.float32(math.log(params.min_p) if params.min_p else -math.inf)
    if params.top_k:
        ordered = np.sort(logs[keep])[::-1]
        keep &= logs >= ordered[: params.top_k][-1]
    ordered = np.sort(logs[keep])[::-1]
    mass = np.cumsum(np.exp(ordered), dtype=np.float64)
    inside = ordered[np.concatenate([[True], mass[:-1] < params.top_p * mass[-1]])]
    return keep & (logs >= inside[-1])


def plainly_chosen(row, params: SamplingParams, choice_index=0, position=1) -> int:
    """The definition: noise for every token of the vocabulary, nothing left out."""
    if params.greedy:
        return int(np.argmax(row))
    logs = (row - row.max()) * np.float32(1 / params.temperature)
    noise = gumbel(np.arange(len(row)), noise_key(params.seed, choice_index, position))
    return int(np.argmax(np.where(kept(logs, params), logs + noise, -np.inf)))


PARAMS = st.builds(
    SamplingParams,
    max_tokens=st.just(8),
    temperature=st.sampled_from([0.0, 0.01, 0.3, 0.7, 1.0, 1.7, 50.0]),
    top_p=st.sampled_from([1.0, 0.999, 0.9, 0.5, 1e-6]),
    top_k=st.sampled_from([0, 0, 1, 2, 50, 10**6]),
    min_p=st.sampled_from([0.0, 0.0, 0.05, 0.7, 1.0]),
    seed=st.integers(0, 2**64 - 1),
)


@settings(max_examples=300)
@given(PARAMS, st.sampled_from([1, 3, 100, 3000]), st.floats(0.1, 12), st.booleans(), st.integers(0, 2**32))
def test_equals_the_plain_definition(params, vocab, spread, coarse, seed):
    row = np.random.default_rng(seed).normal(0, spread, vocab).astype(np.float32)
    if coarse:  # ties everywhere, and masked tokens
        row = np.where(row < -spread, np.float32(-np.inf), np.rint(row))
        row[seed % vocab] = 0.0
    assert choose_one(row, params) == plainly_chosen(row, params)


@settings(max_examples=30)
@given(PARAMS, st.floats(0.1, 6), st.integers(0, 2**32))
def test_equals_the_plain_definition_on_a_whole_vocabulary(params, spread, seed):
    row = np.random.default_rng(seed).normal(0, spread, 49152).astype(np.float32)
    assert choose_one(row, params) == plainly_chosen(row, params)


@given(st.lists(PARAMS, min_size=1, max_size=6), st.integers(0, 2**32))
def test_a_row_does_not_depend_on_the_other_rows(params, seed):
    rows = np.random.default_rng(seed).normal(0, 3, (len(params), 100)).astype(np.float32)
    draws = [Draw(p, i % 2, 10 + i) for i, p in enumerate(params)]
    alone = [choose(rows[i : i + 1], draw)[0] for i, draw in enumerate(draws)]
    assert choose(rows, *draws) == alone


def test_draws_can_name_their_rows():
    rows = torch.tensor([[0.0, 9.0, 0.0], [9.0, 0.0, 0.0], [0.0, 0.0, 9.0]])
    assert Sampler().choose(rows, [Draw(GREEDY, 0, 1)] * 4, rows=[2, 0, 0, 1]) == [2, 1, 1, 0]
    assert Sampler().choose(rows, [], rows=[]) == []


LOGITS = np.log(np.array([0.32, 0.25, 0.17, 0.12, 0.08, 0.04, 0.02], np.float32))


def expected_of(params: SamplingParams) -> np.ndarray:
    logs = (LOGITS - LOGITS.max()) * np.float32(1 / params.temperature)
    weights = np.where(kept(logs, params), np.exp(logs.astype(np.float64)), 0)
    return weights / weights.sum()


@pytest.mark.parametrize(
    ("filters", "support"),
    [
        ({}, 7),
        ({"temperature": 0.5}, 7),
        ({"temperature": 1.6}, 7),
        ({"top_k": 3}, 3),
        ({"top_p": 0.7}, 3),
        ({"min_p": 0.2}, 5),
        ({"temperature": 0.7, "top_p": 0.9}, 4),
        ({"top_k": 4, "top_p": 0.7}, 3),  # .7 of the mass of the four that top_k left
        ({"temperature": 1.3, "top_k": 6, "min_p": 0.25, "top_p": 0.95}, 5),
    ],
)
def test_frequencies_match_the_distribution(filters, support):
    params = SamplingParams(8, seed=1, **filters)
    draws = [Draw(params, 0, position) for position in range(2500)]
    counts = np.bincount(choose(np.tile(LOGITS, (2500, 1)), *draws), minlength=7)
    expected = expected_of(params)
    assert (expected > 0).sum() == support
    assert (counts[expected == 0] == 0).all()
    assert stats.chisquare(counts[:support], 2500 * expected[:support]).pvalue > 1e-3


def test_greedy_takes_the_lowest_id_on_a_tie():
    assert choose_one([0.0, 3.0, 1.0, 3.0], GREEDY) == 1
    row = np.zeros(49152, np.float32)
    row[[40000, 700, 49151]] = 1.5
    assert choose_one(row, GREEDY) == 700


def test_colder_than_float_can_divide_by_is_greedy():
    row = np.random.default_rng(3).normal(0, 3, 1000)
    for temperature in (1e-9, 1e-40, 5e-324):
        assert choose_one(row, SamplingParams(8, temperature=temperature, seed=1)) == np.argmax(row)


def test_equal_weights_at_the_threshold_are_all_kept():
    row = np.log([0.4, 0.2, 0.2, 0.2])
    for params in (SamplingParams(8, top_k=2, seed=5), SamplingParams(8, top_p=0.5, seed=5)):
        draws = [Draw(params, 0, position) for position in range(300)]
        assert set(choose(np.tile(row, (300, 1)), *draws)) == {0, 1, 2, 3}


def test_choice_and_position_change_the_draw():
    params = SamplingParams(8, seed=2)
    row = np.zeros(1000)
    assert len({choose_one(row, params, c, p) for c in range(3) for p in range(3)}) > 5
    assert choose_one(row, params, 1, 2) == choose_one(row, params, 1, 2)


@pytest.mark.parametrize("params", [GREEDY, SamplingParams(8, seed=1), SamplingParams(8, top_p=0.5, seed=1)])
@pytest.mark.parametrize(
    "spoil",
    [
        {0: math.nan},
        {99: math.nan},
        {5: math.inf, 70: math.nan},
        {3: math.inf},
        dict.fromkeys(range(100), math.nan),
        dict.fromkeys(range(100), -math.inf),
    ],
)
def test_unusable_rows_are_named_and_the_others_go_on(params, spoil):
    """S11"""
    rows = np.zeros((3, 100))
    rows[:, 17] = 40.0
    rows[1, list(spoil)] = list(spoil.values())
    assert choose(rows, *[Draw(params, 0, p) for p in range(3)]) == [17, NO_TOKEN, 17]


def test_masked_tokens_are_never_drawn():
    row = np.full(50, -np.inf)
    row[[4, 9]] = -3.0
    draws = [Draw(SamplingParams(8, seed=6), 0, position) for position in range(50)]
    assert set(choose(np.tile(row, (50, 1)), *draws)) == {4, 9}


# ---- walking trees on a tiny target: logits are a table over contexts ----

Logits = Callable[[tuple[int, ...]], np.ndarray]
VOCAB = 5


def table(seed: int) -> Logits:
    def logits(context: tuple[int, ...]) -> np.ndarray:
        # Coarse and dependent on the last two tokens only: ties and repetitions happen.
        return np.random.default_rng((seed, *context[-2:])).integers(0, 4, VOCAB).astype(np.float32)

    return logits


def decode_plainly(prompt: tuple[int, ...], count: int, params: SamplingParams, logits: Logits):
    tokens = prompt
    for _ in range(count):
        tokens += (choose_one(logits(tokens), params, position=len(tokens)),)
    return tokens


def path_to(tree: DraftTree, node: int) -> tuple[int, ...]:
    if node == ROOT:
        return ()
    return (*path_to(tree, int(tree.parents[node])), int(tree.token_ids[node]))


def verify(sequences, trees, params, logits: Logits):
    """One step of the batch: what the engine does around walk(), without a network."""

    def choose_visits(visits: list[Visit]) -> list[int]:
        contexts = [sequences[i] + path_to(trees[i], node) for i, node in visits]
        draws = [Draw(params[i], 0, len(c)) for (i, _), c in zip(visits, contexts, strict=True)]
        return choose([logits(c) for c in contexts], *draws)

    return [result.token_ids for result in walk(trees, choose_visits)]


def random_tree(rng: np.random.Generator, base_len: int) -> DraftTree:
    links: dict[tuple[int, int], None] = {}
    for _ in range(rng.integers(0, 14)):
        links.setdefault((int(rng.integers(-1, len(links))), int(rng.integers(VOCAB))))
    parents = [parent for parent, _ in links]
    tokens = [token for _, token in links]
    return DraftTree.build(0, base_len, tokens, parents, -rng.exponential(1, len(links)))


@settings(max_examples=60)
@given(st.lists(PARAMS, min_size=1, max_size=4), st.sampled_from([0, 1, 3, 8, 100]), st.integers(0, 2**32))
def test_speculation_changes_no_token(params, m, seed):
    """Invariants 1 and 2, case S6: any tree, any m, any batch, greedy and sampled, with filters."""
    rng = np.random.default_rng(seed)
    logits = table(seed)
    prompts = [tuple(rng.integers(0, VOCAB, rng.integers(1, 4)).tolist()) for _ in params]
    plain = [decode_plainly(q, 12, p, logits) for q, p in zip(prompts, params, strict=True)]
    sequences = list(prompts)
    for _ in range(12):
        trees = [random_tree(rng, len(tokens))[:m] for tokens in sequences]
        for i, tokens in enumerate(verify(sequences, trees, params, logits)):
            assert 1 <= len(tokens) <= m + 1
            sequences[i] += tokens
    for speculative, expected in zip(sequences, plain, strict=True):
        assert speculative[: len(expected)] == expected


def test_oracle_drafts_are_accepted_whole():
    params = SamplingParams(8, seed=3)
    logits = table(1)
    ahead = decode_plainly((1,), 6, params, logits)[1:]
    tree = DraftTree.build(0, 1, ahead[:5], range(-1, 4), [-0.1] * 5)
    assert verify([(1,)], [tree], [params], logits) == [ahead]


@pytest.mark.parametrize("drafted", [0, 1])
def test_a_certain_draft_does_not_bend_the_odds(drafted):
    """S10"""
    tree = DraftTree.build(0, 1, [drafted], [-1], [0.0])
    row = np.log(np.array([0.51, 0.49], np.float32))
    params = [SamplingParams(8, seed=s) for s in range(2500)]
    emitted = verify([(0,)] * 2500, [tree] * 2500, params, lambda context: row)
    counts = np.bincount([tokens[0] for tokens in emitted])
    assert stats.chisquare(counts, [1275, 1225]).pvalue > 1e-3
    assert counts[drafted] == sum(len(tokens) == 2 for tokens in emitted)


def test_emitted_pairs_follow_the_target():
    """Invariant 2: joint frequencies of two tokens, most of them accepted from drafts."""
    first = np.array([0.5, 0.3, 0.2])
    then = np.array([[0.1, 0.6, 0.3], [0.4, 0.3, 0.3], [0.2, 0.2, 0.6]])
    tree = DraftTree.build(0, 1, [0, 1, 1, 0], [-1, -1, 0, 1], np.log([0.6, 0.3, 0.5, 0.5]))

    def logits(context):
        return np.log(first if len(context) == 1 else then[context[1]]).astype(np.float32)

    params = [SamplingParams(8, seed=s) for s in range(3000)]
    sequences = [(0,)] * 3000
    counts = np.zeros((3, 3))
    for tokens, p in zip(verify(sequences, [tree] * 3000, params, logits), params, strict=True):
        pair = tokens[:2] if len(tokens) > 1 else (*tokens, choose_one(logits((0, *tokens)), p, position=2))
        counts[pair] += 1
    expected = 3000 * first[:, None] * then
    assert stats.chisquare(counts.ravel(), expected.ravel()).pvalue > 1e-3
