"""Evidence on distributions: pairs of tokens, many of them accepted from drafts, for every combination of
what shapes sampling, against probabilities computed plainly in float64.

The network is a table of logits; what verifies is the engine's own packer, walk, adjuster and sampler.
"""

from __future__ import annotations

from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from packing import pack
from scipy import stats

from serving.engine.batch import Packer
from serving.engine.sampler import Sampler
from serving.engine.scheduler import Decode, StepPlan
from serving.engine.sequence import Sequence
from serving.engine.verification import Verification
from serving.spec.tree import DraftTree
from serving.types import GenerationRequest, SamplingParams

Array = NDArray[np.float64]

VOCAB = 6
DRAWS = 800
PROMPT = (5, 2, 2)
# A row for each last token. The gaps are far from any filter's edge, so that rounding decides nothing.
LOGITS = np.random.default_rng(4).permuted(np.tile(np.linspace(-1.5, 1.5, VOCAB), (VOCAB, 1)), axis=1)
# Right for some draws, wrong for others, and with a token that follows itself.
TREE = ([0, 1, 3, 0, 4, 2, 3], [-1, -1, -1, 0, 0, 1, 2])

SHAPES: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 0.7},
    "top_k": {"top_k": 4},
    "top_p": {"top_p": 0.87},
    "min_p": {"min_p": 0.13},
    "penalties": {"presence_penalty": 0.7, "frequency_penalty": -0.45, "repetition_penalty": 1.4},
    "bias": {"logit_bias": ((1, 1.15), (4, -0.83)), "min_tokens": 2, "stop_token_ids": frozenset({3})},
}
COMBINATIONS = list(chain.from_iterable(combinations(SHAPES, size) for size in range(len(SHAPES) + 1)))


def shaped(names: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for name in names for key, value in SHAPES[name].items()}


@pytest.mark.parametrize("names", COMBINATIONS, ids="+".join)
def test_pairs_follow_the_distribution(names: tuple[str, ...]) -> None:
    params = shaped(names)
    expected = pair_probabilities(params)
    pairs, accepted = sampled_pairs(params)
    counts = np.zeros((VOCAB, VOCAB))
    np.add.at(counts, tuple(np.array(pairs).T), 1)
    assert accepted > DRAWS / 3
    assert counts[expected == 0].sum() == 0, "a token came that cannot"
    likely = expected * DRAWS >= 5
    observed, anticipated = (np.append(n[likely], n[~likely].sum()) for n in (counts, expected * DRAWS))
    filled = anticipated > 0
    assert stats.chisquare(observed[filled], anticipated[filled]).pvalue > 1e-3
    assert total_variation(counts, expected) < chance_variation(expected, 0.999)


def sampled_pairs(params: dict[str, Any]) -> tuple[list[tuple[int, int]], int]:
    """The first two tokens of a request for each seed, and how many of the first were accepted drafts."""
    sequences = [started(seed, params) for seed in range(DRAWS)]
    first = verified(sequences, [DraftTree.build(0, len(PROMPT), *TREE, [-0.1] * len(TREE[0]))] * DRAWS)
    for seq, tokens in zip(sequences, first, strict=True):
        seq.append(tokens[:2])
        seq.num_computed = len(seq.token_ids) - 1
    missing = [seq for seq in sequences if seq.num_output < 2]
    for seq, tokens in zip(missing, verified(missing, [DraftTree.empty(0, 4)] * len(missing)), strict=True):
        seq.append(tokens)
    pairs = [(seq.token_ids[-2], seq.token_ids[-1]) for seq in sequences]
    return pairs, sum(len(tokens) > 1 for tokens in first)


def started(seed: int, params: dict[str, Any]) -> Sequence:
    request = GenerationRequest(f"r{seed}", PROMPT, SamplingParams(9, seed=seed, **params))
    seq = Sequence.create(seed, request)
    seq.num_computed, seq.block_table = len(PROMPT) - 1, [0]
    return seq


def verified(sequences: list[Sequence], trees: list[DraftTree]) -> list[tuple[int, ...]]:
    """One step of the engine, from its rows to what it commits."""
    packer = Packer(max_rows=16 * DRAWS, max_seqs=DRAWS, max_blocks=1, block_size=64)
    decodes = list(zip(sequences, trees, strict=True))
    batch = pack(packer, decodes)
    plan = StepPlan(tuple(Decode(seq, len(tree)) for seq, tree in decodes), (), ())
    logits = torch.from_numpy(LOGITS[batch.token_ids].astype(np.float32))
    results = Verification(plan, trees, batch, logits).results(Sampler())
    return [result.token_ids for result in results]


def pair_probabilities(params: dict[str, Any]) -> Array:
    """[first, second] by the definitions, one filter after the other."""
    first = probabilities(PROMPT[-1], [], params)
    then = [probabilities(token, [token], params) for token in range(VOCAB)]
    return first[:, None] * np.array(then)


def probabilities(last: int, output: list[int], params: dict[str, Any]) -> Array:
    logits = LOGITS[last].copy()
    for token, bias in params.get("logit_bias", ()):
        logits[token] += bias
    for token in {*PROMPT, *output}:
        penalty = params.get("repetition_penalty", 1.0)
        logits[token] = logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
    for token in set(output):
        logits[token] -= params.get("presence_penalty", 0.0)
        logits[token] -= params.get("frequency_penalty", 0.0) * output.count(token)
    if len(output) < params.get("min_tokens", 0):
        logits[list(params["stop_token_ids"])] = -np.inf
    weights = np.exp(logits / params.get("temperature", 1.0))
    weights[weights < params.get("min_p", 0.0) * weights.max()] = 0.0
    order = np.argsort(-weights)
    weights[order[params.get("top_k", VOCAB) :]] = 0.0
    mass = np.cumsum(weights[order]) / weights.sum()
    weights[order[1:][mass[:-1] >= params.get("top_p", 1.0)]] = 0.0
    return weights / weights.sum()


def total_variation(counts: NDArray[Any], p: Array) -> Any:
    """Half the sum of differences over the last two axes."""
    return np.abs(counts / DRAWS - p).sum(axis=(-2, -1)) / 2


def chance_variation(p: Array, quantile: float) -> float:
    """What the total variation of DRAWS true draws stays below with this probability."""
    counts = np.random.default_rng(0).multinomial(DRAWS, p.ravel(), 4000).reshape(-1, *p.shape)
    return float(np.quantile(total_variation(counts, p), quantile))
