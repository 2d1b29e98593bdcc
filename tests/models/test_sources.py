"""Every way to name a model that needs no network; the others are tested with their servers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from serving.errors import ModelLoadError
from serving.models.sources import resolve


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def test_local_folder(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve(str(tiny_model), tmp_path) == tiny_model
    monkeypatch.setenv("HOME", str(tiny_model.parent))
    assert resolve(f"~/{tiny_model.name}", tmp_path) == tiny_model
    assert list(tmp_path.iterdir()) == []  # nothing is cached


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ModelLoadError, match=name):
        resolve(str(folder), tmp_path)


def test_a_truncated_weight_file_is_named(folder: Path, tmp_path: Path) -> None:
    os.truncate(folder / "model.safetensors", 10_000)
    with pytest.raises(ModelLoadError, match=r"model\.safetensors is truncated or corrupt"):
        resolve(str(folder), tmp_path)


def test_an_unsupported_model_is_refused(folder: Path, tmp_path: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "mamba"}))
    with pytest.raises(ModelLoadError, match="'mamba' is not supported"):
        resolve(str(folder), tmp_path)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("/no/such/folder", "'/no/such/folder' is not found"),
        ("no-such-model", "'no-such-model' is not found"),
        ("a/b/c", "'a/b/c' is not found"),
        ("", r"config\.json is missing"),
        ("../owner/name", "is not found"),
        ("missing.gguf", r"missing\.gguf cannot be read: No such file"),
        ("s3://", "names no bucket"),
        (__file__, "is a file, but neither"),
    ],
)
def test_names_that_lead_nowhere(
    model: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelLoadError, match=message) as caught:
        resolve(model, tmp_path)
    assert str(caught.value).endswith(".")


def test_clients_are_not_imported_for_a_local_folder(tiny_model: Path, tmp_path: Path) -> None:
    script = (
        "import pathlib, sys\n"
        "from serving.models.sources import resolve\n"
        "resolve(sys.argv[1], pathlib.Path(sys.argv[2]))\n"
        "print(sorted({'transformers', 'boto3', 'huggingface_hub', 'gguf'} & set(sys.modules)))\n"
    )
    command = [sys.executable, "-c", script, str(tiny_model), str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_command_line(tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "serving.models"]
    environ = os.environ | {"CANOPY_CACHE_DIR": str(tmp_path)}
    assert subprocess.run([*command, str(tiny_model)], env=environ, check=False).returncode == 0
    assert capfd.readouterr().out == f"{tiny_model}\n"
    environ["CANOPY_MODEL"] = str(tmp_path / "nowhere")
    assert subprocess.run(command, env=environ, check=False).returncode == 1
    assert capfd.readouterr().err.endswith("(owner/name).\n")
