"""The decoder computes what transformers computes, for every family, on both paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import torch
from packing import pack, sequence
from safetensors.torch import load_file, save_file
from tiny_models import config_for, save_tiny, tiny_model
from torch import Tensor

from serving.engine.build import build_engine
from serving.engine.engine import Engine
from serving.engine.scheduler import Prefill
from serving.errors import ModelLoadError

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama-tied": {"tie_word_embeddings": True},
    "llama-biases": {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1},
    "llama-rope-llama3": {"rope_scaling": LLAMA3_ROPE, "rope_theta": 500_000.0},
    "llama-rope-linear": {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "llama-rope-yarn": {
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    },
    "mistral": {"model_type": "mistral", "sliding_window": None, "head_dim": 32},
    "qwen2": {"model_type": "qwen2"},
    "qwen2-tied": {"model_type": "qwen2", "tie_word_embeddings": True, "num_key_value_heads": 4},
    "qwen3": {"model_type": "qwen3", "head_dim": 48},
    "qwen3-biases": {"model_type": "qwen3", "head_dim": 64, "attention_bias": True, "vocab_size": 128},
}
ODD = {
    "hidden_size": 60,
    "intermediate_size": 84,
    "num_attention_heads": 6,
    "head_dim": 10,
    "vocab_size": 101,
}
WEIGHTS = "model.safetensors"
TOKENS = np.random.default_rng(0).integers(0, 100, 200).tolist()

# Root mean square of the difference from transformers' float32, as a share of the logits' spread.
PRECISION = {"float32": 1e-5, "bfloat16": 0.05}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("families")


def saved(folders: Path, family: str, **change: Any) -> tuple[Path, Tensor]:
    """The model's folder, and transformers' float32 logits of TOKENS: [200, vocab]."""
    folder = folders / family
    if not folder.exists():
        model = tiny_model(**FAMILIES.get(family, {}) | change)
        save_tiny(folder, model)
        with torch.inference_mode():
            torch.save(model(torch.tensor([TOKENS])).logits[0], folder / "logits.pt")
    return folder, torch.load(folder / "logits.pt")


def logits_of(engine: Engine, tokens: Sequence[int], ends: Sequence[int]) -> Tensor:
    """Of every position, in chunks up to each of `ends`: [len(tokens), vocab]."""
    seq, chunks, start = sequence(tokens, 0, range(len(tokens) // 16 + 1)), [], 0
    for end in ends:
        batch = pack(engine._packer, prefills=[Prefill(seq, start, end - start)])
        every_row = replace(batch, logit_rows=np.arange(end - start, dtype=np.int32))
        chunks.append(engine.runner.forward(every_row).clone())
        start = end
    return torch.cat(chunks)


def assert_close(ours: Tensor, theirs: Tensor, dtype: str) -> None:
    assert ours.dtype is torch.float32
    assert ours.shape == theirs.shape
    difference = float((ours - theirs).square().mean().sqrt() / theirs.std())
    assert difference < PRECISION[dtype]
    if dtype == "float32":
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_transformers(folders: Path, family: str, backend: str, dtype: str) -> None:
    folder, expected = saved(folders, family)
    engine = build_engine(config_for(folder, dtype, attention_backend=backend), None, "test")
    assert (engine.runner.decoder.ops.__class__.__name__ == "NativeLinearOps") == (backend == "native")
    assert_close(logits_of(engine, TOKENS, [200]), expected, dtype)
    assert_close(logits_of(engine, TOKENS, [1, 18, 100, 101, 200]), expected, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
@pytest.mark.parametrize("backend", ["native", "torch"])
def test_logits_have_the_same_bits_in_any_chunks(
    folders: Path, backend: str, family: str, dtype: str
) -> None:
    folder = saved(folders, family)[0]
    config = config_for(folder, dtype, num_threads=2, attention_backend=backend, deterministic=True)
    engine = build_engine(config, None, "test")
    whole = logits_of(engine, TOKENS, [200])
    assert torch.equal(logits_of(engine, TOKENS, range(1, 201)), whole)  # plain decoding, but for its name
    assert torch.equal(logits_of(engine, TOKENS, [7, 64, 66, 199, 200]), whole)


def test_sizes_that_the_kernels_cannot_take_fall_back_to_torch(
    folders: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, expected = saved(folders, "odd", **ODD)
    engine = build_engine(config_for(folder), None, "test")
    assert "running without CPU kernels: hidden size" in caplog.text
    assert_close(logits_of(engine, TOKENS, [90, 200]), expected, "float32")


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3-biases"])
def test_a_missing_tensor_is_named(folders: Path, tmp_path: Path, family: str) -> None:
    folder, tensors = loaded(folders, family)
    copytree(folder, tmp_path, dirs_exist_ok=True)
    for name in tensors:
        save_file({other: tensors[other] for other in tensors if other != name}, tmp_path / WEIGHTS)
        with pytest.raises(ModelLoadError, match=f"no tensor {name}"):
            build_engine(config_for(tmp_path), None, "test")


def test_a_tensor_of_another_shape_is_named(folders: Path, tmp_path: Path) -> None:
    folder, tensors = loaded(folders, "qwen3-biases")
    copytree(folder, tmp_path, dirs_exist_ok=True)
    for name, tensor in tensors.items():
        save_file(tensors | {name: tensor[:-1].clone()}, tmp_path / WEIGHTS)
        with pytest.raises(ModelLoadError, match=f"{name} has shape"):
            build_engine(config_for(tmp_path), None, "test")


def loaded(folders: Path, family: str) -> tuple[Path, dict[str, Tensor]]:
    folder, _ = saved(folders, family)
    return folder, load_file(folder / WEIGHTS)
