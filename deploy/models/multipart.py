"""Uploading one file: in parts when it is large, only the parts that S3 lacks, each with its checksum."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

MIN_PART_BYTES = 5 * 2**20  # S3's limits
MAX_PARTS = 10_000
_ALGORITHM = "SHA256"


class Target(NamedTuple):
    """An object to be written. `encryption`: S3's arguments for it."""

    client: Any
    bucket: str
    key: str
    encryption: Mapping[str, Any]

    @property
    def address(self) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": self.key}

    @property
    def creation(self) -> dict[str, Any]:
        return {**self.address, **self.encryption}


class Digests(NamedTuple):
    """Of a file. `sha256`: hexadecimal, of all its bytes; `stored`: the checksum that S3 has of it, which for
    an object in parts is that of its parts' checksums.
    """

    sha256: str
    stored: str


class Part(NamedTuple):
    """`number` counts from 1; `offset` and `size` in bytes."""

    number: int
    offset: int
    size: int


def put(target: Target, body: bytes) -> None:
    """A small object at once. S3 refuses it when its checksum is not that of what arrives."""
    target.client.put_object(
        **target.creation, Body=body, ChecksumAlgorithm=_ALGORITHM, ChecksumSHA256=checksum(body)
    )


def upload(
    target: Target, path: Path, part_bytes: int, pool: ThreadPoolExecutor, progress: Callable[[int], object]
) -> None:
    """`path` as an object; parts of an interrupted upload of the same bytes are kept."""
    size = path.stat().st_size
    if size <= part_bytes:
        put(target, path.read_bytes())
        progress(size)
        return
    parts = split(size, part_bytes)
    upload_id, there = _begin(target)

    def send(part: Part) -> dict[str, Any]:
        body = _read(path, part)
        entry = {"PartNumber": part.number, "ChecksumSHA256": checksum(body)}
        known = there.get(part.number)
        if known is None or not _is(known, body):
            known = target.client.upload_part(**target.address, UploadId=upload_id, Body=body, **entry)
        progress(part.size)
        return {**entry, "ETag": known["ETag"]}

    target.client.complete_multipart_upload(
        **target.address, UploadId=upload_id, MultipartUpload={"Parts": list(pool.map(send, parts))}
    )


def digests(path: Path, part_bytes: int) -> Digests:
    whole, of_parts = hashlib.sha256(), []
    for part in split(path.stat().st_size, part_bytes):
        body = _read(path, part)
        whole.update(body)
        of_parts.append(hashlib.sha256(body).digest())
    stored = of_parts[0] if len(of_parts) == 1 else hashlib.sha256(b"".join(of_parts)).digest()
    return Digests(whole.hexdigest(), base64.b64encode(stored).decode())


def stored_checksum(target: Target) -> str:
    """The checksum of the object that is there; empty where S3 keeps none of this kind."""
    head = target.client.head_object(**target.address, ChecksumMode="ENABLED")
    return str(head.get("ChecksumSHA256", "")).partition("-")[0]  # -N: it has N parts


def split(size: int, part_bytes: int) -> list[Part]:
    """Parts of equal size but for the last, at most as many as S3 takes."""
    step = max(part_bytes, -(-size // MAX_PARTS))
    return [
        Part(number, offset, min(step, size - offset))
        for number, offset in enumerate(range(0, max(size, 1), step), start=1)
    ]


def checksum(body: bytes) -> str:
    """As S3 writes it."""
    return base64.b64encode(hashlib.sha256(body).digest()).decode()


def _begin(target: Target) -> tuple[str, dict[int, dict[str, Any]]]:
    """The id of an upload, the newest interrupted one where there is one, and the parts it has by number."""
    listed = target.client.list_multipart_uploads(Bucket=target.bucket, Prefix=target.key)
    begun = [
        upload
        for upload in listed.get("Uploads", [])
        if upload["Key"] == target.key and upload.get("ChecksumAlgorithm") == _ALGORITHM
    ]
    if not begun:
        created = target.client.create_multipart_upload(**target.creation, ChecksumAlgorithm=_ALGORITHM)
        return created["UploadId"], {}
    upload_id = max(begun, key=lambda upload: upload["Initiated"])["UploadId"]
    pages = target.client.get_paginator("list_parts").paginate(**target.address, UploadId=upload_id)
    return upload_id, {part["PartNumber"]: part for page in pages for part in page.get("Parts", [])}


def _is(part: Mapping[str, Any], body: bytes) -> bool:
    """Whether S3 has this. Stores that keep no checksum of a part have its MD5 as the ETag."""
    if "ChecksumSHA256" in part:
        return bool(part["ChecksumSHA256"] == checksum(body))
    return bool(part["ETag"].strip('"') == hashlib.md5(body, usedforsecurity=False).hexdigest())


def _read(path: Path, part: Part) -> bytes:
    with path.open("rb") as file:
        file.seek(part.offset)
        return file.read(part.size)
