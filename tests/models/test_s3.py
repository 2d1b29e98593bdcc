"""S3 against a real HTTP server that speaks it."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from loopback_aws import aws_server, point_at

from serving.engine.head import BORROWED, drafting_fingerprint
from serving.errors import ModelLoadError
from serving.models.s3 import fetched
from serving.models.sources import resolve, resolve_head
from serving.models.weights import Weights

BUCKET, PREFIX = "models", "llms/tiny"
URL = f"s3://{BUCKET}/{PREFIX}"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with aws_server() as url:
        yield url


@pytest.fixture
def client(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """An empty S3 which this process's AWS configuration points at."""
    point_at(endpoint, monkeypatch, tmp_path)
    return boto3.Session().client("s3")


@pytest.fixture
def bucket(client: Any, tiny_model: Path) -> Any:
    """The tiny model under the prefix, among files that are not the model's."""
    client.create_bucket(Bucket=BUCKET)
    for path in tiny_model.iterdir():
        client.upload_file(str(path), BUCKET, f"{PREFIX}/{path.name}")
    for name in ("pytorch_model.bin", "consolidated.safetensors", "onnx/config.json", "README.md"):
        client.put_object(Bucket=BUCKET, Key=f"{PREFIX}/{name}", Body=b"not wanted")
    client.put_object(Bucket=BUCKET, Key=f"{PREFIX}-other/config.json", Body=b"not wanted")
    return client


@pytest.mark.parametrize("url", [URL, URL + "/"])
def test_model_files_and_no_others(
    bucket: Any, tiny_model: Path, tmp_path: Path, url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = resolve(url, tmp_path)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == {
        p.name: p.read_bytes() for p in tiny_model.iterdir()
    }
    assert "s3://models: 100%" in capfd.readouterr().err


def test_a_head_may_be_a_pickle_and_needs_no_tokenizer(client: Any, tmp_path: Path) -> None:
    client.create_bucket(Bucket="heads")
    for name in ("config.json", "pytorch_model.bin", "README.md"):
        client.put_object(Bucket="heads", Key=f"eagle3/{name}", Body=name.encode())
    folder = resolve_head("s3://heads/eagle3", tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "pytorch_model.bin"]


def test_a_drafter_fetches_only_the_files_that_it_borrows_from(
    client: Any, sharded: Path, tmp_path: Path
) -> None:
    client.create_bucket(Bucket="sharded")
    for path in sharded.iterdir():
        client.upload_file(str(path), "sharded", path.name)
    part = resolve("s3://sharded", tmp_path / "drafter", BORROWED)
    rest = {"model-00001-of-00002.safetensors"}
    assert {path.name for path in part.iterdir()} == {path.name for path in sharded.iterdir()} - rest
    assert set(BORROWED) <= Weights.open(part, BORROWED).names
    # Where the whole model is, as beside a verifier, nothing is fetched; both agree on what it is.
    whole = resolve("s3://sharded", tmp_path / "verifier")
    assert resolve("s3://sharded", tmp_path / "verifier", BORROWED) == whole
    assert drafting_fingerprint(part, BORROWED) == drafting_fingerprint(whole, BORROWED)
    nothing = resolve("s3://sharded", tmp_path / "drafter", ())
    assert not list(nothing.glob("*.safetensors"))
    assert drafting_fingerprint(nothing) == drafting_fingerprint(whole)


def test_a_broken_index_is_named(client: Any, tiny_model: Path, tmp_path: Path) -> None:
    client.create_bucket(Bucket="broken")
    for path in tiny_model.iterdir():
        client.upload_file(str(path), "broken", path.name)
    for body, message in ((b"{", "not valid JSON"), (b"{}", "no weight_map")):
        client.put_object(Bucket="broken", Key="model.safetensors.index.json", Body=body)
        with pytest.raises(ModelLoadError, match=rf"s3://broken/model\.safetensors\.index\.json .*{message}"):
            resolve("s3://broken", tmp_path, BORROWED)


def test_model_at_the_root_of_a_bucket(client: Any, tiny_model: Path, tmp_path: Path) -> None:
    client.create_bucket(Bucket="tiny")
    for path in tiny_model.iterdir():
        client.upload_file(str(path), "tiny", path.name)
    assert (resolve("s3://tiny", tmp_path) / "config.json").exists()


def test_second_start_downloads_nothing(bucket: Any, tmp_path: Path) -> None:
    folder = fetched(URL, tmp_path)
    before = {path: path.stat() for path in folder.iterdir()}
    assert fetched(URL, tmp_path) == folder
    assert {path: path.stat() for path in folder.iterdir()} == before


def test_changed_object_gets_another_folder(bucket: Any, tmp_path: Path) -> None:
    """Even one of the same size: a process may be running from the first folder."""
    first = fetched(URL, tmp_path)
    original = (first / "config.json").read_bytes()
    changed = original.replace(b"0.3", b"0.2")
    assert changed != original
    bucket.put_object(Bucket=BUCKET, Key=f"{PREFIX}/config.json", Body=changed)
    second = fetched(URL, tmp_path)
    assert second != first
    assert (second / "config.json").read_bytes() == changed
    assert (first / "config.json").read_bytes() == original


def test_interrupted_download_goes_on(bucket: Any, tmp_path: Path) -> None:
    folder = fetched(URL, tmp_path)
    partial = folder.rename(folder.with_name(folder.name + ".partial"))
    (partial / "config.json").write_bytes(b"already here")
    (partial / "model.safetensors").rename(partial / "model.safetensors.part.a1b2c3")
    assert fetched(URL, tmp_path) == folder
    assert (folder / "config.json").read_bytes() == b"already here"
    assert (folder / "model.safetensors").exists()
    assert not list(folder.glob("*.part*"))


def test_large_file_in_parts(bucket: Any, tmp_path: Path) -> None:
    body = bytes(range(256)) * 2**17  # 32 MiB: two ranges
    bucket.put_object(Bucket=BUCKET, Key=f"{PREFIX}/model-00002-of-00002.safetensors", Body=body)
    assert (fetched(URL, tmp_path) / "model-00002-of-00002.safetensors").read_bytes() == body


def expect(message: str, url: str, cache_dir: Path) -> None:
    with pytest.raises(ModelLoadError, match=message) as caught:
        fetched(url, cache_dir)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_no_such_bucket(client: Any, tmp_path: Path) -> None:
    expect("s3://absent/x: there is no bucket absent", "s3://absent/x", tmp_path)


def test_no_such_prefix(bucket: Any, tmp_path: Path) -> None:
    expect("s3://models/llms/small holds no model files", "s3://models/llms/small", tmp_path)


def test_no_credentials(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    expect("needs AWS credentials", URL, tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    expect("needs AWS credentials", URL, tmp_path)


def test_access_denied(bucket: Any, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    iam = boto3.Session().client("iam")
    iam.create_user(UserName="nobody")
    key = iam.create_access_key(UserName="nobody")["AccessKey"]
    check_permissions_after(endpoint, "0")
    try:
        expect(r"access to s3://models/llms/tiny is denied \(InvalidAccessKeyId\)", URL, tmp_path)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
        expect(r"access to s3://models/llms/tiny is denied \(AccessDenied\)", URL, tmp_path)
    finally:
        check_permissions_after(endpoint, "inf")


def check_permissions_after(endpoint: str, actions: str) -> None:
    url = f"{endpoint}/moto-api/reset-auth"
    request = urllib.request.Request(url, data=actions.encode(), headers={"Content-Type": "text/plain"})
    urllib.request.urlopen(request).close()


def test_nobody_answers(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    expect("s3://models/llms/tiny cannot be fetched: Could not connect", URL, tmp_path)
