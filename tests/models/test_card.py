"""What the router learns of a model, from every way the files are written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from serving.errors import ModelLoadError
from serving.models.architecture import Architecture
from serving.models.card import fingerprint, read_card, read_tokenizer
from serving.models.generation_config import read_sampling_defaults
from serving.types import SamplingDefaults


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def write_config(folder: Path, **fields: Any) -> None:
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    (folder / "tokenizer_config.json").write_text(json.dumps(fields))


def test_card_of_a_saved_model(tiny_model: Path) -> None:
    card = read_card(tiny_model, "tiny", Architecture.from_folder(tiny_model), 100, "float32")
    config = json.loads((tiny_model / "config.json").read_text())
    tokens = json.loads((tiny_model / "tokenizer_config.json").read_text())
    assert (card.name, card.max_model_len, card.vocab_size) == ("tiny", 100, config["vocab_size"])
    assert card.eos_token_ids == (config["eos_token_id"],)
    assert (card.bos_token, card.eos_token) == (tokens["bos_token"], tokens["eos_token"])
    assert card.tokenizer_json == (tiny_model / "tokenizer.json").read_bytes()
    assert card.chat_template == read_tokenizer(tiny_model).chat_template
    assert card.fingerprint == fingerprint(tiny_model, "float32")
    assert card.created > 0


@pytest.mark.parametrize(
    ("written", "template"),
    [
        ("text", "text"),
        ([{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}], "b"),
        ([{"name": "tool_use", "template": "a"}], None),
        (None, None),
    ],
)
def test_template_in_tokenizer_config(folder: Path, written: object, template: str | None) -> None:
    write_config(folder, chat_template=written)
    assert read_tokenizer(folder).chat_template == template


def test_template_file_wins(folder: Path) -> None:
    write_config(folder, chat_template="from the configuration")
    (folder / "chat_template.jinja").write_text("from the file: é", encoding="utf-8")
    assert read_tokenizer(folder).chat_template == "from the file: é"


def test_special_tokens_as_text_as_objects_and_absent(folder: Path) -> None:
    write_config(folder, bos_token={"content": "<s>", "lstrip": False}, eos_token=None)
    files = read_tokenizer(folder)
    assert (files.bos_token, files.eos_token) == ("<s>", None)
    (folder / "tokenizer_config.json").unlink()
    assert read_tokenizer(folder).bos_token is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"chat_template": 3}, "chat_template must be text"),
        ({"chat_template": [{"name": "default", "template": 3}]}, "chat_template must be text"),
        ({"eos_token": 3}, "eos_token must be text"),
    ],
)
def test_wrong_types_are_named(folder: Path, fields: dict[str, Any], message: str) -> None:
    write_config(folder, **fields)
    with pytest.raises(ModelLoadError, match=message):
        read_tokenizer(folder)


def test_without_recommendations_sampling_is_openais(folder: Path) -> None:
    (folder / "generation_config.json").unlink(missing_ok=True)
    assert read_sampling_defaults(folder) == SamplingDefaults(1.0, 1.0, 0, 0.0, 1.0)


def test_recommended_sampling(folder: Path) -> None:
    written = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": None, "repetition_penalty": 1.05}
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 2], **written}))
    card = read_card(folder, "tiny", Architecture.from_folder(folder), 100, "float32")
    assert card.sampling == SamplingDefaults(0.6, 0.95, 20, 0.0, 1.05)
    assert card.eos_token_ids == (1, 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1},
        {"temperature": "hot"},
        {"temperature": float("inf")},
        {"top_p": 0},
        {"top_p": 1.5},
        {"top_k": 2.5},
        {"top_k": -2},
        {"top_k": True},
        {"min_p": float("nan")},
        {"repetition_penalty": 0},
    ],
)
def test_wrong_recommendations_are_named(folder: Path, wrong: dict[str, Any]) -> None:
    (folder / "generation_config.json").write_text(json.dumps(wrong))
    with pytest.raises(ModelLoadError, match=f"generation_config.json's {next(iter(wrong))} cannot be"):
        read_sampling_defaults(folder)


def test_broken_files_are_named(folder: Path) -> None:
    (folder / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(ModelLoadError, match=r"chat_template\.jinja is not UTF-8"):
        read_tokenizer(folder)
    (folder / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes()[:-10])
    with pytest.raises(ModelLoadError, match=r"tokenizer\.json is not a valid tokenizer"):
        read_tokenizer(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelLoadError, match=r"tokenizer\.json is missing: a fast tokenizer is needed"):
        read_tokenizer(folder)


def test_fingerprint_follows_weights_tokenizer_and_dtype(folder: Path, tiny_model: Path) -> None:
    original = fingerprint(tiny_model, "float32")
    assert fingerprint(folder, "float32") == original  # a copy elsewhere is the same model
    assert fingerprint(folder, "bfloat16") != original
    trained = {name: tensor * 1.001 for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(trained, folder / "model.safetensors")
    changed = fingerprint(folder, "float32")
    assert changed != original
    (folder / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes() + b" ")
    assert fingerprint(folder, "float32") not in (original, changed)
