"""A head or draft model that is damaged or not for the target: the start fails, with one sentence."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_heads import TinyHead, save_head
from tiny_models import config_for, save_tiny, tiny_model
from tiny_tokenizers import byte_level, metaspace

from serving.config import ServeConfig
from serving.engine.build import build_engine
from serving.engine.build_drafter import build_network_drafter
from serving.errors import ConfigError, ModelLoadError

KINDS = {"eagle3": TinyHead(fc_norm=True), "eagle": TinyHead("eagle", biases=True)}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("target") / "llama", tiny_model())


def config(target: Path, **speculation: Any) -> ServeConfig:
    values = {**config_for(target).model_dump(), "speculation": speculation}
    return ServeConfig.model_validate(values)


def start(of: ServeConfig) -> None:
    """Both sides, each of which may be the first."""
    build_engine(of, None, "test")
    build_network_drafter(of)


def refused(of: ServeConfig, message: str) -> None:
    with pytest.raises(ModelLoadError, match=message) as caught:
        start(of)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.parametrize("pickled", [False, True], ids=["safetensors", "bin"])
def test_the_head_as_it_should_be(target: Path, tmp_path: Path, kind: str, pickled: bool) -> None:
    head = save_head(KINDS[kind], tmp_path, "specforge", pickled=pickled)
    start(config(target, method=kind, head=str(head)))


def test_every_missing_tensor_is_named(target: Path, tmp_path: Path, kind: str) -> None:
    for name in set(KINDS[kind].tensors) - {"d2t", "t2d"}:
        stored = name.replace("layer.", "midlayer." if kind == "eagle3" else "layers.0.", 1)
        head = save_head(KINDS[kind], tmp_path, "specforge", tensors={stored: None})
        refused(config(target, method=kind, head=str(head)), f"has no tensor {name}")


@pytest.mark.parametrize("damage", ["shape", "nan", "inf"])
def test_every_damaged_tensor_is_named(target: Path, tmp_path: Path, kind: str, damage: str) -> None:
    for name, tensor in KINDS[kind].tensors.items():
        if name in ("d2t", "t2d"):
            continue
        stored = name.replace("layer.", "midlayer." if kind == "eagle3" else "layers.0.", 1)
        spoilt = tensor.clone()
        spoilt.view(-1)[-1] = float(damage) if damage != "shape" else 0.0
        changed = spoilt[:-1] if damage == "shape" else spoilt
        head = save_head(KINDS[kind], tmp_path, "specforge", tensors={stored: changed})
        message = "has shape" if damage == "shape" else "has values that are not finite"
        refused(config(target, method=kind, head=str(head)), f"{stored} of head .* {message}")


@pytest.mark.parametrize("keep", [0, 5, 1000, 100_000])
@pytest.mark.parametrize("pickled", [False, True], ids=["safetensors", "bin"])
def test_a_truncated_file(target: Path, tmp_path: Path, pickled: bool, keep: int) -> None:
    head = save_head(KINDS["eagle3"], tmp_path, "specforge", pickled=pickled)
    file = head / ("pytorch_model.bin" if pickled else "model.safetensors")
    assert keep < file.stat().st_size
    os.truncate(file, keep)
    refused(config(target, method="eagle3", head=str(head)), f"{file.name} is truncated")


class Mischief:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("mischief",)


@pytest.mark.parametrize("content", [Mischief(), {"fc.weight": Mischief()}, {"fc.weight": 3}, torch.ones(3)])
def test_a_pickle_runs_no_code(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: object
) -> None:
    monkeypatch.chdir(tmp_path)
    head = save_head(KINDS["eagle3"], tmp_path / "head", "published", pickled=True)
    torch.save(content, head / "pytorch_model.bin")
    refused(config(target, method="eagle3", head=str(head)), r"pytorch_model\.bin (is|must)")
    assert not (tmp_path / "mischief").exists()


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_a_missing_file_is_named(target: Path, tmp_path: Path, file: str) -> None:
    head = save_head(KINDS["eagle3"], tmp_path, "specforge")
    (head / file).unlink()
    refused(config(target, method="eagle3", head=str(head)), file)


def test_a_configuration_that_is_not_json(target: Path, tmp_path: Path) -> None:
    head = save_head(KINDS["eagle3"], tmp_path, "specforge")
    (head / "config.json").write_text('{"hidden_size": ')
    refused(config(target, method="eagle3", head=str(head)), r"config\.json is not valid JSON")


def test_a_model_is_not_a_head(target: Path) -> None:
    refused(config(target, method="eagle", head=str(target)), "it has 2 layers")


def test_a_head_of_another_method(target: Path, tmp_path: Path) -> None:
    head = save_head(KINDS["eagle"], tmp_path, "published")
    refused(config(target, method="eagle3", head=str(head)), "is for method eagle, not eagle3")


@pytest.mark.parametrize("name", ["/no/such/folder", "no-such-head", "a/b/c"])
def test_a_head_that_is_nowhere(target: Path, name: str) -> None:
    refused(config(target, method="eagle3", head=name), "is not found: it must be `default`, a folder, s3://")


def test_s20_another_tokenizer(target: Path, tmp_path: Path) -> None:
    head = save_head(KINDS["eagle3"], tmp_path, "specforge")
    (head / "tokenizer.json").write_bytes(byte_level())
    start(config(target, method="eagle3", head=str(head)))
    (head / "tokenizer.json").write_bytes(metaspace())
    refused(config(target, method="eagle3", head=str(head)), "is for another model: its tokenizer is not")


def test_renamed_added_tokens_are_the_same_tokenizer(target: Path, tmp_path: Path) -> None:
    head = save_head(KINDS["eagle3"], tmp_path, "specforge")
    tokenizer = json.loads(byte_level())
    tokenizer["added_tokens"][-1]["content"] = "<another call>"
    (head / "tokenizer.json").write_text(json.dumps(tokenizer))
    start(config(target, method="eagle3", head=str(head)))


def test_a_draft_model_of_another_vocabulary(target: Path, tmp_path: Path) -> None:
    draft = save_tiny(tmp_path / "draft", tiny_model(vocab_size=700))
    refused(config(target, method="draft_model", draft_model=str(draft)), "a vocabulary of 700")


def test_a_draft_model_with_another_tokenizer(target: Path, tmp_path: Path) -> None:
    draft = Path(shutil.copytree(target, tmp_path / "draft"))
    (draft / "tokenizer.json").write_bytes(metaspace())
    refused(config(target, method="draft_model", draft_model=str(draft)), "its tokenizer is not")


def test_a_draft_model_that_is_nowhere(target: Path) -> None:
    refused(config(target, method="draft_model", draft_model="/no/such/model"), "is not found")


@pytest.mark.parametrize(
    ("speculation", "message"),
    [
        ({"method": "eagle"}, "method eagle needs a speculation.head"),
        ({"method": "draft_model"}, "method draft_model needs a draft_model"),
        ({"static_tree": []}, "at least one"),
        ({"static_tree": [[0], [0]]}, "must be different"),
        ({"static_tree": [[0], [1, 0]]}, "has no parent"),
        ({"static_tree": [[-1]]}, "not a path of child ranks"),
        ({"static_tree": [[]]}, "not a path of child ranks"),
    ],
)
def test_settings_that_contradict(speculation: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ServeConfig.load({"speculation": speculation}, environ={})
