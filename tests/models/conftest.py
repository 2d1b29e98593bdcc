"""What the tests of model sources share."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_server import FileServer, serve_files
from tiny_gguf import TinyGguf, write_tiny_gguf


@pytest.fixture
def file_server() -> Iterator[FileServer]:
    with serve_files() as server:
        yield server


@pytest.fixture(scope="session")
def sharded(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with its layers in the first of two files."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path_factory.mktemp("models") / "sharded"
    shutil.copytree(tiny_model, folder)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    weight_map = {name: f"model-0000{1 + ('layers' not in name)}-of-00002.safetensors" for name in tensors}
    for file in set(weight_map.values()):
        save_file({name: tensors[name] for name in tensors if weight_map[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> TinyGguf:
    return write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")
