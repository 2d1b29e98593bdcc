"""Models under `s3://bucket/prefix`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import boto3
from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from serving.errors import ModelLoadError
from serving.models.cache import build_once
from serving.models.download import progress_bar
from serving.models.folder import MODEL_FILES, is_one_of
from serving.models.hf_json import Json
from serving.models.weights import INDEX, files_with, weight_map_of

SCHEME = "s3://"
# Within a file: a model's shards are few and large, its other files too small to matter.
_TRANSFER = TransferConfig(max_concurrency=16, multipart_chunksize=2**24)
_DENIED = {
    "AccessDenied",
    "403",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
}


class _Object(NamedTuple):
    key: str
    name: str
    size: int
    etag: str


def fetched(
    url: str, cache_dir: Path, files: Sequence[str] = MODEL_FILES, tensors: Collection[str] | None = None
) -> Path:
    """The folder with the files that match, downloaded when the bucket holds others than the last time.

    tensors: of the safetensors only those with one of these, unless all are there already; None: all.
    Credentials, region and endpoint come from the usual AWS configuration. Raises ModelLoadError.
    """
    bucket, _, prefix = url.removeprefix(SCHEME).partition("/")
    if not bucket:
        raise ModelLoadError(f"{url} names no bucket; write s3://bucket/prefix.")
    with _explained(url, bucket):
        client = boto3.Session().client("s3")
        objects = _list(client, bucket, prefix.strip("/"), files)
        if not objects:
            raise ModelLoadError(f"{url} holds no model files ({', '.join(files)}).")
        folder = cache_dir / "s3" / _folder_name(bucket, prefix, objects)
        if tensors is not None and not folder.is_dir():
            objects = _with_tensors(client, bucket, objects, tensors)
            folder = cache_dir / "s3" / _folder_name(bucket, prefix, objects)
        return build_once(folder, lambda partial: _download(client, bucket, objects, partial))


def _list(client: Any, bucket: str, prefix: str, files: Sequence[str]) -> list[_Object]:
    """Matching files directly under the prefix, in order of their keys."""
    start = f"{prefix}/" if prefix else ""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=start, Delimiter="/")
    return [
        _Object(entry["Key"], name, entry["Size"], entry["ETag"])
        for page in pages
        for entry in page.get("Contents", [])
        if is_one_of(name := entry["Key"].removeprefix(start), files)
    ]


def _with_tensors(
    client: Any, bucket: str, objects: Sequence[_Object], tensors: Collection[str]
) -> list[_Object]:
    """All but the weight files that hold none of the tensors."""
    index = next((item for item in objects if item.name == INDEX), None)
    weight_map = None if index is None else _read_weight_map(client, bucket, index)
    kept = files_with(weight_map, tensors)
    return [item for item in objects if not item.name.endswith(".safetensors") or item.name in kept]


def _read_weight_map(client: Any, bucket: str, index: _Object) -> Json:
    path = f"{SCHEME}{bucket}/{index.key}"
    try:
        content = json.load(client.get_object(Bucket=bucket, Key=index.key)["Body"])
    except ValueError as error:
        raise ModelLoadError(f"{path} is not valid JSON: {error}.") from error
    return weight_map_of(content, path)


def _folder_name(bucket: str, prefix: str, objects: list[_Object]) -> str:
    """Changes with the objects' content, so that a running process never sees its files replaced."""
    digest = hashlib.sha256(repr((bucket, objects)).encode()).hexdigest()[:12]
    return f"{(prefix.strip('/') or bucket).rpartition('/')[2]}-{digest}"


def _download(client: Any, bucket: str, objects: list[_Object], folder: Path) -> None:
    """Fetch what an interrupted download has not brought yet; a file has its name only when it is whole."""
    missing = [item for item in objects if not (folder / item.name).exists()]
    with progress_bar(f"{SCHEME}{bucket}", sum(item.size for item in missing)) as bar:
        for item in missing:
            part = folder / f"{item.name}.part"
            client.download_file(bucket, item.key, str(part), Callback=bar.update, Config=_TRANSFER)
            if part.stat().st_size != item.size:
                raise ModelLoadError(
                    f"{SCHEME}{bucket}/{item.key} changed while it was downloaded; start again."
                )
            part.rename(folder / item.name)
    for stray in {path.name for path in folder.iterdir()} - {item.name for item in objects}:
        (folder / stray).unlink()  # parts of an interrupted download


@contextmanager
def _explained(url: str, bucket: str) -> Iterator[None]:
    """Turn the client's errors into one sentence."""
    try:
        yield
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise ModelLoadError(
            f"{url} needs AWS credentials: set AWS_ACCESS_KEY_ID and its secret, a profile or a role."
        ) from error
    except ClientError as error:
        raise ModelLoadError(_sentence(url, bucket, error.response.get("Error", {}))) from error
    except (BotoCoreError, Boto3Error) as error:
        raise ModelLoadError(f"{url} cannot be fetched: {str(error).rstrip('.')}.") from error


def _sentence(url: str, bucket: str, error: dict[str, str]) -> str:
    match error.get("Code"):
        case "NoSuchBucket":
            return f"{url}: there is no bucket {bucket}."
        case code if code in _DENIED:
            return (
                f"access to {url} is denied ({code}): check the credentials and what they may list and read."
            )
        case code:
            return f"{url} cannot be fetched: S3 answered {code} ({error.get('Message', '').rstrip('.')})."
