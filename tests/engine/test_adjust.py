"""Bias, penalties and min_tokens against their definitions, written plainly."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.engine.adjust import Adjuster
from serving.types import GenerationRequest, SamplingParams

VOCAB = 12
TOKENS = st.lists(st.integers(0, VOCAB - 1), max_size=40)


def adjuster(prompt: list[int], output: tuple[int, ...] = (), **params: Any) -> Adjuster | None:
    return Adjuster.of(GenerationRequest("r", tuple(prompt), SamplingParams(99, **params), output_ids=output))


def by_definition(
    row: np.ndarray, prompt: list[int], output: list[int], params: dict[str, Any]
) -> np.ndarray:
    """One token after the other, in float32 as the model's logits are."""
    row, counts = row.copy(), Counter(output)
    for token, bias in params.get("logit_bias", ()):
        row[token] += np.float32(bias)
    penalty = np.float32(params.get("repetition_penalty", 1.0))
    for token in {*prompt, *output}:
        row[token] = row[token] / penalty if row[token] > 0 else row[token] * penalty
    for token, count in counts.items():
        row[token] -= np.float32(params.get("frequency_penalty", 0.0)) * np.float32(count)
        row[token] -= np.float32(params.get("presence_penalty", 0.0))
    if len(output) < params.get("min_tokens", 0):
        row[list(params["stop_token_ids"])] = -np.inf
    return row


PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "presence_penalty": st.sampled_from([-2.0, 0.3, 2.0]),
        "frequency_penalty": st.sampled_from([-2.0, 0.1, 1.5]),
        "repetition_penalty": st.sampled_from([0.5, 1.1, 2.0]),
        "logit_bias": st.dictionaries(st.integers(0, VOCAB - 1), st.floats(-100, 100), max_size=4).map(
            lambda bias: tuple(bias.items())
        ),
        "min_tokens": st.integers(0, 30),
        "stop_token_ids": st.just(frozenset({3, 7})),
    },
).filter(lambda params: "stop_token_ids" in params or "min_tokens" not in params)


@settings(max_examples=200)
@given(PARAMS, TOKENS.filter(bool), TOKENS, st.integers(0, 40), st.integers(0, 2**16))
def test_equals_the_definition(
    params: dict[str, Any], prompt: list[int], output: list[int], replayed: int, seed: int
) -> None:
    row = np.random.default_rng(seed).normal(0, 4, VOCAB).astype(np.float32)
    before = row.copy()
    adjusts = adjuster(prompt, tuple(output[:replayed]), **params)
    expected = by_definition(row, prompt, output, params)
    if adjusts is None:
        np.testing.assert_array_equal(row, expected)
        return
    adjusts.catch_up(prompt + output)
    assert adjusts.num_output == len(output)
    np.testing.assert_array_equal(adjusts.adjusted(row), expected)
    np.testing.assert_array_equal(row, before)


def test_a_path_counts_behind_the_text_and_is_not_counted_twice() -> None:
    adjusts = adjuster([1], frequency_penalty=1.0)
    assert adjusts is not None
    adjusts.catch_up([1, 5])
    adjusts.catch_up([1, 5], [5])
    adjusts.catch_up([1, 5], [6])
    assert adjusts.adjusted(np.zeros(8, np.float32)).tolist() == [0, 0, 0, 0, 0, -2, -1, 0]
    adjusts.catch_up([1, 5, 5, 6, 7])
    assert adjusts.adjusted(np.zeros(8, np.float32)).tolist() == [0, 0, 0, 0, 0, -2, -1, -1]


@pytest.mark.parametrize(
    "params", [{}, {"min_tokens": 5}, {"stop_token_ids": frozenset({1})}, {"top_p": 0.5}]
)
def test_nothing_to_adjust(params: dict[str, Any]) -> None:
    """Such rows take no copy and no count."""
    assert adjuster([1], **params) is None
