"""Frequencies are transformers', bit for bit, whichever way the checkpoint writes them."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from serving.errors import ModelLoadError
from serving.models.rope import RopeConfig, inverse_frequencies

HEAD_DIM = 64
BASE = {"hidden_size": 256, "num_attention_heads": 4, "head_dim": HEAD_DIM, "max_position_embeddings": 8192}
LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 2048,
}

SCALINGS = [
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "llama3", **LLAMA3},
    {"rope_type": "llama3", **LLAMA3, "factor": 32.0, "original_max_position_embeddings": 512},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048},
    {"rope_type": "yarn", "factor": 4.0},  # the original length defaults to max_position_embeddings
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048, "truncate": False},
    {"rope_type": "yarn", "factor": 4.0, "attention_factor": 0.7},
    {
        "rope_type": "yarn",
        "factor": 8.0,
        "mscale": 1.0,
        "mscale_all_dim": 0.8,
        "beta_fast": 16,
        "beta_slow": 2,
    },
    {"rope_type": "yarn", "factor": 1.0, "original_max_position_embeddings": 64, "beta_slow": 2},
]


def reference(config: dict[str, object]) -> tuple[torch.Tensor, float]:
    hf = LlamaConfig(**config)
    rope_type = hf.rope_parameters["rope_type"]
    init = ROPE_INIT_FUNCTIONS.get(rope_type, LlamaRotaryEmbedding.compute_default_rope_parameters)
    return init(hf)


@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda s: "-".join(map(str, s.values())))
@pytest.mark.parametrize("theta", [10_000.0, 500_000.0])
def test_equal_to_transformers(scaling: dict[str, object], theta: float) -> None:
    config = {**BASE, "rope_parameters": {**scaling, "rope_theta": theta}}
    ours = inverse_frequencies(RopeConfig.from_hf(config), HEAD_DIM, 8192)
    inverse, attention_factor = reference(config)
    assert ours.inverse.dtype == torch.float32
    torch.testing.assert_close(ours.inverse, inverse, rtol=1e-6, atol=0)
    assert ours.attention_factor == pytest.approx(attention_factor, rel=1e-12)


@pytest.mark.parametrize(
    "spelling",
    [
        {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}},
        {"rope_theta": 5e5, "rope_parameters": {"rope_type": "linear", "factor": 2}, "rope_scaling": None},
    ],
)
def test_every_spelling_means_the_same(spelling: dict[str, object]) -> None:
    expected = RopeConfig("linear", 5e5, factor=2.0, original_max_position=8192)
    assert RopeConfig.from_hf({**BASE, **spelling}) == expected


def test_theta_defaults_to_ten_thousand() -> None:
    assert RopeConfig.from_hf({**BASE, "rope_scaling": None}).theta == 10_000.0


def test_top_level_original_length_wins() -> None:
    config = {**BASE, "original_max_position_embeddings": 1024, "rope_scaling": SCALINGS[5]}
    assert RopeConfig.from_hf(config).original_max_position == 1024


def test_dynamic_is_refused_past_the_length_where_it_starts_to_depend_on_the_sequence() -> None:
    rope = RopeConfig.from_hf({**BASE, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}})
    plain = RopeConfig.from_hf(BASE)
    expected = inverse_frequencies(plain, HEAD_DIM, 8192).inverse
    assert torch.equal(inverse_frequencies(rope, HEAD_DIM, 8192).inverse, expected)
    with pytest.raises(ModelLoadError, match="max_model_len from 8193"):
        inverse_frequencies(rope, HEAD_DIM, 8193)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"rope_scaling": {"rope_type": "longrope", "short_factor": [1.0]}},
            "'longrope'",
        ),
        ({"rope_scaling": {"rope_type": "linear"}}, "lacks factor"),
        ({"rope_scaling": {"rope_type": "linear", "factor": "two"}}, "factor must be a number"),
        (
            {"rope_scaling": {"rope_type": "llama3", **LLAMA3, "high_freq_factor": 1.0}},
            "below its high",
        ),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "differ by layer"),
        ({"rope_scaling": "linear"}, "must be a JSON object"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"rope_theta": 0}, "rope_theta must be a number above 0"),
        ({"max_position_embeddings": None}, "lacks max_position_embeddings"),
    ],
)
def test_what_we_do_not_run_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ModelLoadError, match=message):
        RopeConfig.from_hf({**BASE, **change})
