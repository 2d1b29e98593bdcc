"""Configurations are read as transformers reads them; what we do not run is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig, AutoModelForCausalLM

from serving.errors import ModelLoadError
from serving.models.architecture import Architecture

SLIDING = {"use_sliding_window": True, "sliding_window": 16}
SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 128,
    "eos_token_id": 3,
    "bos_token_id": 1,
}
CONFIGS = [
    {"model_type": "llama"},
    {"model_type": "llama", "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
    {"model_type": "llama", "head_dim": 16},
    {"model_type": "mistral", "sliding_window": None},
    {"model_type": "qwen2", "use_sliding_window": False, "sliding_window": 16, "tie_word_embeddings": True},
    {"model_type": "qwen3", "head_dim": 16},
    {"model_type": "qwen3", "attention_bias": True},  # head_dim defaults to 128
]


@pytest.mark.parametrize("change", CONFIGS, ids=lambda c: "-".join(map(str, c.values())))
def test_shapes_and_biases_are_those_of_transformers(change: dict[str, Any]) -> None:
    architecture = Architecture.from_hf({**SMALL, **change})
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**{**SMALL, **change}))
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    q_rows = architecture.num_heads * architecture.head_dim
    k_rows = architecture.num_kv_heads * architecture.head_dim
    layer = "model.layers.1."
    assert f"{layer}input_layernorm.weight" in shapes
    assert shapes[f"{layer}self_attn.q_proj.weight"] == (q_rows, 32)
    assert shapes[f"{layer}self_attn.k_proj.weight"] == (k_rows, 32)
    assert shapes[f"{layer}mlp.up_proj.weight"] == (architecture.intermediate_size, architecture.hidden_size)
    assert (f"{layer}self_attn.v_proj.bias" in shapes) == architecture.qkv_bias
    assert (f"{layer}self_attn.o_proj.bias" in shapes) == architecture.o_bias
    assert (f"{layer}mlp.down_proj.bias" in shapes) == architecture.mlp_bias
    assert (f"{layer}self_attn.q_norm.weight" in shapes) == architecture.qk_norm
    assert ("lm_head.weight" not in shapes) == architecture.tie_word_embeddings
    assert f"model.layers.{architecture.num_layers}.input_layernorm.weight" not in shapes
    assert model.config.rms_norm_eps == architecture.rms_norm_eps


def test_folder_written_by_transformers(tmp_path: Path) -> None:
    AutoConfig.for_model(**{**SMALL, "model_type": "llama", "eos_token_id": [5, 4]}).save_pretrained(tmp_path)
    architecture = Architecture.from_folder(tmp_path)
    assert (architecture.eos_token_ids, architecture.bos_token_id) == ((4, 5), 1)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [9, 7, 9]}))
    assert Architecture.from_folder(tmp_path).eos_token_ids == (7, 9)


def test_null_and_absent_special_tokens() -> None:
    config = {**SMALL, "model_type": "qwen2", "eos_token_id": None, "bos_token_id": None}
    architecture = Architecture.from_hf(config, {"eos_token_id": None})
    assert (architecture.eos_token_ids, architecture.bos_token_id) == ((), None)


def test_heads_default_to_multi_head_attention() -> None:
    config = {**SMALL, "model_type": "llama", "num_key_value_heads": None}
    assert Architecture.from_hf(config).num_kv_heads == 4


def test_yarn_context_is_the_scaled_one() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
    config = {**SMALL, "model_type": "qwen2", "rope_scaling": yarn}
    assert Architecture.from_hf(config).max_position_embeddings == 512
    assert Architecture.from_hf({**config, "max_position_embeddings": 512}).max_position_embeddings == 512


@pytest.mark.parametrize(
    "window",
    [
        {"model_type": "mistral", "sliding_window": 128},  # as long as the context: never cuts
        {"model_type": "qwen2", **SLIDING, "max_window_layers": 2},
        {
            "model_type": "qwen3",
            "use_sliding_window": True,
            "sliding_window": 16,
            "layer_types": ["full_attention"] * 2,
        },
    ],
)
def test_a_window_that_no_layer_uses_is_fine(window: dict[str, Any]) -> None:
    assert Architecture.from_hf({**SMALL, **window}).num_layers == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "mixtral"}, "'mixtral' is not supported"),
        ({"model_type": None}, "None is not supported"),
        ({"model_type": ["llama"]}, "is not supported"),
        ({"hidden_act": "gelu"}, "activation 'gelu'"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantised"),
        ({"model_type": "mistral", "sliding_window": 16}, "window of 16"),
        ({"model_type": "mistral", "max_position_embeddings": 32768}, "window of 4096"),
        (
            {"model_type": "qwen2", **SLIDING, "max_window_layers": 1},
            "of 16",
        ),
        (
            {
                "model_type": "qwen3",
                **SLIDING,
                "layer_types": ["full_attention", "sliding_attention"],
            },
            "of 16",
        ),
        ({"hidden_size": None}, "lacks hidden_size"),
        ({"hidden_size": "32"}, "hidden_size must be a whole number"),
        ({"num_hidden_layers": 0}, "num_hidden_layers must be a whole number of at least 1"),
        ({"num_key_value_heads": 3}, "cannot share 3"),
        ({"head_dim": 7}, "head_dim must be even"),
        ({"rms_norm_eps": 0}, "rms_norm_eps must be a number above 0"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings must be true or false"),
        ({"eos_token_id": "</s>"}, "eos_token_id must be a whole number"),
    ],
)
def test_refusals_name_the_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelLoadError, match=message):
        Architecture.from_hf({**SMALL, "model_type": "llama", **change})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is missing"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe{", "not valid JSON"),
        (b"[]", "a JSON object"),
    ],
)
def test_unreadable_config_names_the_file(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ModelLoadError, match=f"config.json .*{message}"):
        Architecture.from_folder(tmp_path)
