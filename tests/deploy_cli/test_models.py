"""`models push` and `models pull` against a real HTTP server that speaks S3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
from aws_server import BUCKET, CommandLine, check_permissions_after
from botocore.exceptions import ConnectionClosedError

from deploy.models.manifest import MANIFEST
from deploy.models.place import Place
from deploy.models.pull import Pull

PREFIX = "llms/tiny"
URL = f"s3://{BUCKET}/{PREFIX}"
MIB = 2**20


@pytest.fixture
def head(tmp_path: Path) -> Path:
    """A folder in the shape of a head."""
    folder = tmp_path / "head"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "pytorch_model.bin").write_bytes(b"weights" * 100)
    (folder / "README.md").write_text("not the service's")
    return folder


@pytest.fixture
def large_head(head: Path) -> Path:
    """One whose weights take four parts of 5 MiB and two ranges of 16."""
    (head / "pytorch_model.bin").write_bytes(os.urandom(17 * MIB))
    return head


def push_head(deploy: CommandLine, head: Path, *flags: str) -> Any:
    return deploy("models", "push", head, URL, "--head", "--part-mib", "5", *flags)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != MANIFEST}


def test_a_model_comes_back_as_it_was(s3: Any, tiny_model: Path, tmp_path: Path, deploy: CommandLine) -> None:
    pushed = deploy("models", "push", tiny_model, URL + "/")
    assert pushed.status == 0
    assert f"{URL}: {len(content(tiny_model))} files sent, 0 were there" in pushed.out
    assert "100%" in pushed.err
    pulled = deploy("models", "pull", URL, tmp_path / "here")
    assert pulled.status == 0
    assert "verified" in pulled.out
    assert content(tmp_path / "here") == content(tiny_model)


def test_only_what_a_model_needs_is_pushed(s3: Any, head: Path, tmp_path: Path, deploy: CommandLine) -> None:
    assert push_head(deploy, head).status == 0
    names = {entry["Key"] for entry in s3.list_objects_v2(Bucket=BUCKET)["Contents"]}
    assert names == {f"{PREFIX}/{name}" for name in ("config.json", "pytorch_model.bin", MANIFEST)}
    deploy("models", "pull", URL, tmp_path / "here")
    assert (tmp_path / "here" / "pytorch_model.bin").read_bytes() == (head / "pytorch_model.bin").read_bytes()


def test_what_is_there_is_not_sent_again(s3: Any, head: Path, deploy: CommandLine) -> None:
    push_head(deploy, head)
    assert "0 files sent, 2 were there" in push_head(deploy, head).out
    (head / "config.json").write_text("[]")
    assert "1 files sent, 1 were there" in push_head(deploy, head).out


def test_parts_of_an_interrupted_push_are_kept(
    s3: Any, large_head: Path, tmp_path: Path, deploy: CommandLine
) -> None:
    weights = (large_head / "pytorch_model.bin").read_bytes()
    address = {"Bucket": BUCKET, "Key": f"{PREFIX}/pytorch_model.bin"}
    begun = s3.create_multipart_upload(**address, ChecksumAlgorithm="SHA256")["UploadId"]
    right = s3.upload_part(**address, UploadId=begun, PartNumber=1, Body=weights[: 5 * MIB])
    s3.upload_part(**address, UploadId=begun, PartNumber=2, Body=b"of another file" + bytes(5 * MIB))
    assert push_head(deploy, large_head).status == 0
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=BUCKET)  # this one was completed
    first = s3.head_object(**address, PartNumber=1)
    assert first["ContentLength"] == 5 * MIB
    assert right["ETag"]
    deploy("models", "pull", URL, tmp_path / "here")
    assert (tmp_path / "here" / "pytorch_model.bin").read_bytes() == weights


def test_objects_carry_checksums_and_the_key(s3: Any, large_head: Path, deploy: CommandLine) -> None:
    key = boto3.Session().client("kms").create_key()["KeyMetadata"]["Arn"]
    push_head(deploy, large_head, "--kms-key", key)
    for name in ("config.json", "pytorch_model.bin", MANIFEST):
        there = s3.head_object(Bucket=BUCKET, Key=f"{PREFIX}/{name}", ChecksumMode="ENABLED")
        assert there["ServerSideEncryption"] == "aws:kms"
        assert there["SSEKMSKeyId"] == key
        assert there["ChecksumSHA256"]


def test_another_models_files_are_not_mixed_in(s3: Any, head: Path, deploy: CommandLine) -> None:
    s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}/model-00001-of-00002.safetensors", Body=b"old")
    refused = push_head(deploy, head)
    assert refused.status == 1
    assert "holds other files of a model (model-00001-of-00002.safetensors)" in refused.error
    assert push_head(deploy, head, "--prune").status == 0
    assert "model-00001" not in str(s3.list_objects_v2(Bucket=BUCKET)["Contents"])


def test_a_prefix_is_whole_only_with_its_manifest(
    s3: Any, head: Path, tmp_path: Path, deploy: CommandLine
) -> None:
    push_head(deploy, head)
    s3.delete_object(Bucket=BUCKET, Key=f"{PREFIX}/{MANIFEST}")
    pulled = deploy("models", "pull", URL, tmp_path / "here")
    assert pulled.status == 1
    assert "holds no whole model" in pulled.error
    assert not (tmp_path / "here").exists()


def test_damaged_bytes_are_not_accepted(s3: Any, head: Path, tmp_path: Path, deploy: CommandLine) -> None:
    push_head(deploy, head)
    weights = (head / "pytorch_model.bin").read_bytes()
    s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}/pytorch_model.bin", Body=b"!" + weights[1:])
    pulled = deploy("models", "pull", URL, tmp_path / "here")
    assert pulled.status == 1
    assert "pytorch_model.bin.part has SHA-256" in pulled.error
    assert not (tmp_path / "here").exists()
    s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}/pytorch_model.bin", Body=weights)
    assert deploy("models", "pull", URL, tmp_path / "here").status == 0


def test_a_pull_goes_on_where_it_was_interrupted(
    s3: Any, large_head: Path, tmp_path: Path, deploy: CommandLine
) -> None:
    push_head(deploy, large_head)
    asked: list[str] = []
    cuts = [3]

    def on_the_wire(request: Any, **_: Any) -> None:
        if (part := request.headers.get("Range", b"").decode()) and "pytorch_model" in request.url:
            asked.append(part)
            if cuts[0] and not part.startswith("bytes=0-"):
                cuts[0] -= 1
                raise ConnectionClosedError(endpoint_url=request.url)

    s3.meta.events.register("before-send.s3.GetObject", on_the_wire)
    pull = Pull(s3, Place(BUCKET, PREFIX), tmp_path / "here")
    with pytest.raises(ConnectionClosedError):
        pull.run()
    assert not pull.folder.exists()
    asked.clear()
    cuts[0] = 1
    pull.run()
    assert asked[1:] == [f"bytes={16 * MIB}-{17 * MIB - 1}"]
    assert content(pull.folder) == {p.name: p.read_bytes() for p in large_head.iterdir() if p.suffix != ".md"}


def test_a_pulled_folder_is_left_alone(s3: Any, head: Path, tmp_path: Path, deploy: CommandLine) -> None:
    push_head(deploy, head)
    (tmp_path / "here").mkdir()  # empty: an init container's volume may bring it
    deploy("models", "pull", URL, tmp_path / "here")
    assert "2 files were there" in deploy("models", "pull", URL, tmp_path / "here").out
    with (tmp_path / "here" / "pytorch_model.bin").open("ab") as file:
        file.truncate(7)
    assert "is damaged; remove" in deploy("models", "pull", URL, tmp_path / "here").error
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").touch()
    assert "is not this model" in deploy("models", "pull", URL, tmp_path / "other").error
    assert (tmp_path / "other" / "mine").exists()


def test_a_new_model_under_the_prefix_replaces_what_a_pull_had_begun(
    s3: Any, head: Path, tmp_path: Path, deploy: CommandLine
) -> None:
    push_head(deploy, head)
    partial = tmp_path / "here.partial"
    partial.mkdir()
    (partial / "config.json").write_text("of the model before")
    (partial / MANIFEST).write_text("of the model before")
    assert deploy("models", "pull", URL, tmp_path / "here").status == 0
    assert (tmp_path / "here" / "config.json").read_text() == "{}"


def test_a_manifest_of_somebody_else(s3: Any, tmp_path: Path, deploy: CommandLine) -> None:
    for document in ("[]", "{", '{"version": 2, "source": "", "files": []}', '{"version": 1, "source": ""}'):
        s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}/{MANIFEST}", Body=document.encode())
        assert MANIFEST in deploy("models", "pull", URL, tmp_path / "here").error


def test_a_manifest_cannot_name_files_elsewhere(s3: Any, tmp_path: Path, deploy: CommandLine) -> None:
    files = [{"name": "../../etc/passwd", "size": 1, "sha256": "00"}]
    document = json.dumps({"version": 1, "source": "", "files": files})
    s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}/{MANIFEST}", Body=document.encode())
    assert "outside its folder" in deploy("models", "pull", URL, tmp_path / "here").error


@pytest.mark.parametrize(
    "url", ["models/tiny", "s3://", "s3://bucket", "s3://bucket/", "https://bucket/prefix"]
)
def test_a_place_must_name_bucket_and_prefix(tmp_path: Path, deploy: CommandLine, url: str) -> None:
    assert "must be s3://bucket/prefix" in deploy("models", "pull", url, tmp_path).error


def test_one_sentence_for_what_is_wrong(
    s3: Any, head: Path, tmp_path: Path, deploy: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = deploy("models", "push", head, "s3://no-such-bucket/tiny", "--head")
    assert gone.error == "s3://no-such-bucket/tiny: there is no such bucket."
    empty = deploy("models", "push", tmp_path, URL, "--head")
    assert "holds no files of a model" in empty.error
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "Could not connect" in deploy("models", "pull", URL, tmp_path / "here").error
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert "nobody" in deploy("models", "pull", URL, tmp_path / "here").error
    monkeypatch.delenv("AWS_PROFILE")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert "no AWS credentials" in deploy("models", "pull", URL, tmp_path / "here").error


def test_permission_is_denied(
    s3: Any, aws: str, head: Path, tmp_path: Path, deploy: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    push_head(deploy, head)
    iam = boto3.Session().client("iam")
    iam.create_user(UserName="nobody")
    key = iam.create_access_key(UserName="nobody")["AccessKey"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
    check_permissions_after(aws, "0")
    try:
        assert "GetObject is denied (AccessDenied)" in deploy("models", "pull", URL, tmp_path / "here").error
        assert "ListObjectsV2 is denied (AccessDenied)" in push_head(deploy, head).error
    finally:
        check_permissions_after(aws, "inf")


def test_a_pull_does_not_wait_for_torch() -> None:
    """Init containers start often, and importing it takes seconds."""
    code = "import deploy.__main__, sys; sys.exit('torch' in sys.modules or 'ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
