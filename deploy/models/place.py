"""Where a model lies in S3, and what is there."""

from __future__ import annotations

from typing import Any, NamedTuple

from deploy.errors import DeployError

SCHEME = "s3://"


class StoredObject(NamedTuple):
    """`size` in bytes; `etag` changes with the content."""

    size: int
    etag: str


class Place(NamedTuple):
    """`s3://bucket/prefix`; the prefix has no slash at its ends and is never empty."""

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Place:
        """Raises DeployError unless this is s3://bucket/prefix."""
        bucket, _, prefix = url.removeprefix(SCHEME).partition("/")
        if not url.startswith(SCHEME) or not bucket or not prefix.strip("/"):
            raise DeployError(f"{url!r} must be s3://bucket/prefix.")
        return cls(bucket, prefix.strip("/"))

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}"

    def key(self, name: str) -> str:
        return f"{self.prefix}/{name}"

    def list(self, client: Any) -> dict[str, StoredObject]:
        """By name: what is directly under the prefix."""
        start = f"{self.prefix}/"
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=start, Delimiter="/"
        )
        return {
            entry["Key"].removeprefix(start): StoredObject(entry["Size"], entry["ETag"])
            for page in pages
            for entry in page.get("Contents", [])
        }
