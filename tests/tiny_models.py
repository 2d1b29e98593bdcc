"""Tiny models of every family on disk: random weights, in the layout that transformers writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tiny_tokenizers import byte_level
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from serving.config import ServeConfig
from serving.kernels.build import load_library

SMALL: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 100,  # not whole strips of the kernels
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "eos_token_id": None,
    "bos_token_id": None,
}


def tiny_model(seed: int = 0, **change: Any) -> PreTrainedModel:
    """SMALL with `change`. Norms and biases are random too, or a wrong one would go unnoticed."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**{**SMALL, **change}))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
            elif name.endswith("bias"):
                parameter.normal_(0, 0.3)
            else:
                parameter.normal_(0, 1.5 * parameter.shape[1] ** -0.5)
    return model.eval()


def save_tiny(folder: Path, model: PreTrainedModel) -> Path:
    """Whatever a served model's folder has; the tokenizer's ids are not the model's."""
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes(byte_level())
    return folder


def own_cache(folder: Path) -> Path:
    """A cache folder that has nothing but the kernels, which take seconds to compile."""
    shared = ServeConfig().cache_dir
    load_library(shared)
    (folder / "kernels").symlink_to(shared / "kernels")
    return folder


def config_for(folder: Path, dtype: str = "float32", **engine: Any) -> ServeConfig:
    """One thread and a small cache, unless `engine` says otherwise. Kernels are compiled once per machine."""
    return ServeConfig.model_validate(
        {
            "model": str(folder),
            "dtype": dtype,
            "engine": {"num_threads": 1, "kv_cache_memory": "4MiB", "max_num_seqs": 16, **engine},
        }
    )
