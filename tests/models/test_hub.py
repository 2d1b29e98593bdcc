"""The hub, played by a local server that answers as it does."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from file_server import FileServer
from huggingface_hub import constants

from serving.engine.head import BORROWED
from serving.errors import ModelLoadError
from serving.models.hub import is_hub_id
from serving.models.sources import resolve, resolve_head
from serving.models.weights import INDEX

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL = "someone/tiny"
INFO = f"/api/models/{MODEL}/revision/main"


@pytest.fixture(autouse=True)
def hub(file_server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileServer:
    """An empty hub and an empty cache, as HF_ENDPOINT and HF_HOME would set them."""
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, file_server.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "ENDPOINT", file_server.url)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return file_server


@pytest.fixture
def published(hub: FileServer, tiny_model: Path) -> FileServer:
    return publish(hub, tiny_model)


def publish(hub: FileServer, model: Path) -> FileServer:
    files = {path.name: path.read_bytes() for path in model.iterdir()}
    files |= {"pytorch_model.bin": b"not wanted", "onnx/config.json": b"not wanted"}
    tree = [
        {"type": "file", "path": name, "size": len(body), "oid": oid(body)} for name, body in files.items()
    ]
    hub.files[INFO] = json.dumps({"id": MODEL, "sha": COMMIT, "siblings": []}).encode()
    hub.files[f"/api/models/{MODEL}/tree/{COMMIT}"] = json.dumps(tree).encode()
    hub.headers[f"/{MODEL}/resolve/main/{INDEX}"] = {"X-Error-Code": "EntryNotFound"}
    for name, body in files.items():
        for revision in (COMMIT, "main"):
            path = f"/{MODEL}/resolve/{revision}/{name}"
            hub.files[path] = body
            hub.headers[path] = {"ETag": f'"{oid(body)}"', "X-Repo-Commit": COMMIT}
    return hub


def oid(body: bytes) -> str:
    return hashlib.sha1(body).hexdigest()


def expect(message: str, cache_dir: Path) -> None:
    with pytest.raises(ModelLoadError, match=message) as caught:
        resolve(MODEL, cache_dir)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_model_files_and_no_others(published: FileServer, tiny_model: Path, tmp_path: Path) -> None:
    folder = resolve(MODEL, tmp_path)
    assert folder.is_relative_to(tmp_path / "hub")
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == {
        p.name: p.read_bytes() for p in tiny_model.iterdir()
    }


def test_a_head_may_be_a_pickle_and_needs_no_tokenizer(
    published: FileServer, tiny_model: Path, tmp_path: Path
) -> None:
    folder = resolve_head(MODEL, tmp_path)
    wanted = {"config.json", "tokenizer.json", "model.safetensors", "pytorch_model.bin"}
    assert {p.name for p in folder.iterdir()} == wanted


def test_a_drafter_fetches_only_the_files_that_it_borrows_from(
    hub: FileServer, sharded: Path, tmp_path: Path
) -> None:
    publish(hub, sharded)
    names = {path.name for path in sharded.iterdir()}
    rest = {"model-00001-of-00002.safetensors"}
    assert {path.name for path in resolve(MODEL, tmp_path, BORROWED).iterdir()} == names - rest
    assert {path.name for path in resolve(MODEL, tmp_path).iterdir()} == names


def test_a_model_in_one_file_is_fetched_whole_or_not_at_all(published: FileServer, tmp_path: Path) -> None:
    assert not (resolve(MODEL, tmp_path, ()) / "model.safetensors").exists()
    assert (resolve(MODEL, tmp_path, BORROWED) / "model.safetensors").exists()


def test_cached_model_needs_no_network(
    published: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = resolve(MODEL, tmp_path)
    published.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert resolve(MODEL, tmp_path) == folder
    assert published.requests == []
    (folder / "model.safetensors").unlink()
    expect(f"{MODEL} is only partly in the local cache", tmp_path)


def test_offline_and_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    expect(f"{MODEL} is not in the local cache, and the hub is offline", tmp_path)


def test_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    expect(f"{MODEL} is not in the local cache, and the hub is offline or cannot be reached", tmp_path)


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (404, "RepoNotFound", "is neither a local path nor a model on the hub"),
        (401, "RepoNotFound", "is neither a local path nor a model on the hub"),
        (403, "GatedRepo", "is gated on the hub: accept its terms"),
        (500, "", "is not in the local cache"),
    ],
)
def test_refusals(hub: FileServer, tmp_path: Path, status: int, code: str, message: str) -> None:
    hub.statuses[INFO] = [status] * 10
    hub.headers[INFO] = {"X-Error-Code": code}
    expect(f"{MODEL} {message}", tmp_path)


def test_a_repository_without_safetensors(published: FileServer, tmp_path: Path) -> None:
    tree = f"/api/models/{MODEL}/tree/{COMMIT}"
    entries = json.loads(published.files[tree])
    kept = [entry for entry in entries if not entry["path"].endswith(".safetensors")]
    published.files[tree] = json.dumps(kept).encode()
    expect(r"has neither model\.safetensors nor", tmp_path)


def test_ids() -> None:
    assert is_hub_id("HuggingFaceTB/SmolLM2-135M-Instruct")
    assert is_hub_id("a_b/c.d-e")
    for other in ("gpt2", "./a/b", "/a/b", "a/b/c", "a/", "~/b", "-a/b", "a b/c"):
        assert not is_hub_id(other), other
