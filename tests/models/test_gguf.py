"""GGUF files become folders with the very weights they hold, once; broken ones say so in a sentence."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGUFWriter
from tiny_gguf import CHAT_TEMPLATE, TOKENS, TinyGguf, write_tiny_gguf
from tokenizers import Tokenizer

from serving.errors import ModelLoadError
from serving.models.architecture import Architecture
from serving.models.card import read_tokenizer
from serving.models.folder import check_folder
from serving.models.gguf import cached_folder, converted
from serving.models.gguf_conversion import main
from serving.models.rope import RopeConfig, inverse_frequencies
from serving.models.sources import resolve
from serving.models.weights import Weights


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the conversion writes."""
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


def assert_equal_weights(folder: Path, state: dict[str, torch.Tensor]) -> None:
    weights = Weights.open(folder)
    assert weights.names == state.keys()
    for name, expected in state.items():
        assert torch.equal(weights.get(name), expected), name


def test_converted_once_in_a_process_of_its_own(tiny_gguf: TinyGguf, tmp_path: Path) -> None:
    folder = resolve(str(tiny_gguf.path), tmp_path)
    assert_equal_weights(folder, tiny_gguf.state)
    tokenizer = read_tokenizer(folder)
    ids = Tokenizer.from_buffer(tokenizer.tokenizer_json).encode("abc").ids
    assert ids == [TOKENS.index("ab"), TOKENS.index("c")]
    assert (tokenizer.chat_template, tokenizer.eos_token) == (CHAT_TEMPLATE, "<|end|>")
    assert (folder / "model.safetensors").stat().st_mode & 0o044  # a shared cache can be read
    written = (folder / "model.safetensors").stat()
    assert resolve(str(tiny_gguf.path), tmp_path) == folder
    assert (folder / "model.safetensors").stat() == written


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_other_families(family: str, tmp_path: Path, folder: Path) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf", family)
    assert main(source.path, folder) == 0
    check_folder(folder)
    assert_equal_weights(folder, source.state)


def test_quantised_weights_become_bfloat16(tmp_path: Path, folder: Path) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf", quantised=True)
    assert main(source.path, folder) == 0
    weights = Weights.open(folder)
    for name, original in source.state.items():
        stored = weights.get(name)
        assert stored.dtype == torch.bfloat16
        assert (stored.float() - original).abs().max() <= original.abs().max() / 100, name


def test_files_beside_the_gguf_are_ignored(tiny_gguf: TinyGguf, tmp_path: Path, folder: Path) -> None:
    shutil.copy(tiny_gguf.path, tmp_path / "tiny.gguf")
    (tmp_path / "config.json").write_text("not even JSON")
    assert main(tmp_path / "tiny.gguf", folder) == 0
    assert_equal_weights(folder, tiny_gguf.state)


def test_truncated_file(tiny_gguf: TinyGguf, tmp_path: Path) -> None:
    shutil.copy(tiny_gguf.path, tmp_path / "cut.gguf")
    os.truncate(tmp_path / "cut.gguf", tiny_gguf.path.stat().st_size - 1000)
    with pytest.raises(ModelLoadError, match=r"cut\.gguf cannot be converted: it is damaged") as caught:
        converted(tmp_path / "cut.gguf", tmp_path)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "gguf").glob("cut-????????????"))


def test_truncated_header(
    tiny_gguf: TinyGguf, tmp_path: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cut.gguf").write_bytes(tiny_gguf.path.read_bytes()[:200])
    assert main(tmp_path / "cut.gguf", folder) == 1
    assert capfd.readouterr().out.startswith("it is damaged")


def test_unsupported_architecture(tmp_path: Path, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    writer = GGUFWriter(tmp_path / "other.gguf", "gpt2")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert main(tmp_path / "other.gguf", folder) == 1
    assert "'gpt2' is not supported" in capfd.readouterr().out
    assert list(folder.iterdir()) == []


def test_not_a_gguf(tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_text("<html>")
    with pytest.raises(ModelLoadError, match=r"page\.gguf is not a GGUF file"):
        converted(tmp_path / "page.gguf", tmp_path)
    with pytest.raises(ModelLoadError, match=r"cannot be read: Is a directory"):
        converted(tmp_path, tmp_path)


def test_a_replaced_file_is_converted_anew(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    first = cached_folder(path, tmp_path)
    assert cached_folder(path, tmp_path) == first
    os.utime(path, ns=(0, 0))
    second = cached_folder(path, tmp_path)
    path.write_bytes(b"GGUF\0")
    os.utime(path, ns=(0, 0))
    assert len({first, second, cached_folder(path, tmp_path)}) == 3


@pytest.mark.parametrize(
    ("metadata", "scaling"),
    [
        ({"type": "none"}, {"rope_type": "default"}),
        ({"type": "linear", "factor": 4.0}, {"rope_type": "linear", "factor": 4.0}),
        (
            {"type": "yarn", "factor": 2.0, "original_context_length": 64},
            {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64},
        ),
    ],
)
def test_rope_scaling_in_the_metadata_is_kept(
    metadata: dict[str, str | int | float], scaling: dict[str, Any], tmp_path: Path, folder: Path
) -> None:
    keys = {f"llama.rope.scaling.{name}": value for name, value in metadata.items()}
    source = write_tiny_gguf(tmp_path / "tiny.gguf", metadata=keys)
    assert main(source.path, folder) == 0
    expected = {"max_position_embeddings": 128, "rope_parameters": scaling}
    assert Architecture.from_folder(folder).rope == RopeConfig.from_hf(expected)


def rope_factors(**scaling: float) -> np.ndarray:
    """What llama.cpp's converter stores: plain frequencies over scaled ones."""
    plain = {"max_position_embeddings": 128}
    scaled = plain | {"rope_parameters": {"rope_type": "llama3", **scaling}}
    fast, slow = (inverse_frequencies(RopeConfig.from_hf(c), 16, 128).inverse for c in (plain, scaled))
    return (fast / slow).numpy()


LLAMA31 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_llama3_scaling_is_recovered_from_its_factors(factor: float, tmp_path: Path, folder: Path) -> None:
    factors = rope_factors(factor=factor, **LLAMA31)
    assert factors.max() == factor
    source = write_tiny_gguf(tmp_path / "tiny.gguf", tensors={"rope_freqs.weight": factors})
    assert main(source.path, folder) == 0
    rope = Architecture.from_folder(folder).rope
    assert (rope.rope_type, rope.factor, rope.original_max_position) == ("llama3", factor, 8192)
    assert_equal_weights(folder, source.state)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"metadata": {"llama.rope.scaling.type": "longrope"}}, "'longrope' is not supported"),
        (
            {"metadata": {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.attn_factor": 2.0}},
            "scaling.attn_factor is not supported",
        ),
        (
            {
                "tensors": {
                    "rope_freqs.weight": rope_factors(factor=8.0, **LLAMA31 | {"low_freq_factor": 0.5})
                }
            },
            "none of the known kinds",
        ),
        ({"tensors": {"blk.0.attn_q.bias": np.ones(64, np.float32)}}, "of its 21 tensors only 20 are known"),
    ],
)
def test_what_transformers_would_pass_over_is_refused(
    extra: dict[str, Any], message: str, tmp_path: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf", **extra)
    assert main(source.path, folder) == 1
    assert message in capfd.readouterr().out
    assert list(folder.iterdir()) == []


def test_a_tensor_that_is_not_there_is_not_made_up(
    tmp_path: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf", without="blk.1.ffn_up.weight")
    assert main(source.path, folder) == 1
    assert "it lacks model.layers.1.mlp.up_proj.weight" in capfd.readouterr().out
