"""Weights are read as stored, and damaged files fail the opening with their name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from serving.errors import ModelLoadError
from serving.models.weights import INDEX, SINGLE, Weights

TENSORS = {
    "a.weight": torch.arange(24, dtype=torch.float32).view(4, 6),
    "b.weight": torch.arange(6, dtype=torch.bfloat16).view(2, 3),
    "c.bias": torch.tensor([1.5, -2.0], dtype=torch.float16),
}
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


@pytest.fixture
def single(tmp_path: Path) -> Path:
    save_file(TENSORS, tmp_path / SINGLE)
    return tmp_path


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    weight_map = {"a.weight": FIRST, "b.weight": SECOND, "c.bias": SECOND}
    for shard in (FIRST, SECOND):
        save_file({n: TENSORS[n] for n, f in weight_map.items() if f == shard}, tmp_path / shard)
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    return tmp_path


@pytest.mark.parametrize("layout", ["single", "sharded"])
def test_every_tensor_as_stored(layout: str, request: pytest.FixtureRequest) -> None:
    weights = Weights.open(request.getfixturevalue(layout))
    assert weights.names == TENSORS.keys()
    for name, expected in TENSORS.items():
        assert name in weights
        assert weights.get(name).dtype == expected.dtype
        assert torch.equal(weights.get(name), expected)


def test_slices_along_each_dimension(sharded: Path) -> None:
    weights = Weights.open(sharded)
    assert torch.equal(weights.slice("a.weight", 0, 1, 3), TENSORS["a.weight"][1:3])
    assert torch.equal(weights.slice("a.weight", 1, 4, 6), TENSORS["a.weight"][:, 4:6])
    assert torch.equal(weights.slice("c.bias", 0, 0, 1), TENSORS["c.bias"][:1])
    assert weights.slice("a.weight", 0, 2, 2).shape == (0, 6)
    with pytest.raises(AssertionError):
        weights.slice("a.weight", 0, 3, 5)


def test_a_tensor_that_is_not_there(single: Path) -> None:
    weights = Weights.open(single)
    assert "lm_head.weight" not in weights
    with pytest.raises(ModelLoadError, match=r"no tensor lm_head\.weight"):
        weights.get("lm_head.weight")
    with pytest.raises(ModelLoadError, match=r"no tensor lm_head\.weight"):
        weights.slice("lm_head.weight", 0, 0, 1)


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_truncated_file(single: Path, keep: int) -> None:
    content = (single / SINGLE).read_bytes()
    (single / SINGLE).write_bytes(content[:keep])
    with pytest.raises(ModelLoadError, match=f"{SINGLE} is truncated or corrupt"):
        Weights.open(single)


def test_corrupt_header(single: Path) -> None:
    (single / SINGLE).write_bytes(b"\xff" * 64)
    with pytest.raises(ModelLoadError, match=f"{SINGLE} is truncated or corrupt"):
        Weights.open(single)


def test_missing_shard(sharded: Path) -> None:
    (sharded / SECOND).unlink()
    with pytest.raises(ModelLoadError, match=f"{SECOND} is missing"):
        Weights.open(sharded)


def test_truncated_shard(sharded: Path) -> None:
    (sharded / SECOND).write_bytes((sharded / SECOND).read_bytes()[:-2])
    with pytest.raises(ModelLoadError, match=f"{SECOND} is truncated or corrupt"):
        Weights.open(sharded)


def test_shard_without_a_tensor_of_the_index(sharded: Path) -> None:
    save_file({"b.weight": TENSORS["b.weight"]}, sharded / SECOND)
    with pytest.raises(ModelLoadError, match=f"{SECOND} lacks c.bias"):
        Weights.open(sharded)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("{", "not valid JSON"),
        ("{}", "no weight_map"),
        ('{"weight_map": {"a.weight": "../model.safetensors"}}', "not a file beside it"),
        ('{"weight_map": {"a.weight": 3}}', "not a file beside it"),
    ],
)
def test_bad_index(tmp_path: Path, index: str, message: str) -> None:
    (tmp_path / INDEX).write_text(index)
    with pytest.raises(ModelLoadError, match=message):
        Weights.open(tmp_path)


def test_nothing_to_load(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=f"neither {SINGLE} nor {INDEX}"):
        Weights.open(tmp_path)
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(ModelLoadError, match="convert them to safetensors"):
        Weights.open(tmp_path)
