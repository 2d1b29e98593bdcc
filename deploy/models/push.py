"""A model's files into S3: only what is missing there or differs, the manifest last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from deploy.errors import DeployError
from deploy.models.manifest import MANIFEST, Manifest, ModelFile
from deploy.models.multipart import Digests, Target, digests, put, stored_checksum, upload
from deploy.models.place import Place, StoredObject
from serving.models.download import progress_bar
from serving.models.folder import HEAD_FILES, MODEL_FILES, is_one_of

WORKERS = 8


class Pushed(NamedTuple):
    """Names of the files that were sent and of those that were there already."""

    sent: tuple[str, ...]
    kept: tuple[str, ...]


class Push(NamedTuple):
    """`source`: what `folder` was made from. `patterns`: its files that count. `kms_key`: empty for the
    bucket's own encryption. `prune`: remove other files of a model from the prefix.
    """

    client: Any
    source: str
    folder: Path
    patterns: Sequence[str]
    place: Place
    kms_key: str
    part_bytes: int
    prune: bool

    def run(self) -> Pushed:
        """Raises DeployError, and the errors of the client."""
        paths = model_files(self.folder, self.patterns)
        versions = [_version(path) for path in paths]
        with ThreadPoolExecutor(WORKERS) as pool:
            known = dict(zip(paths, pool.map(lambda p: digests(p, self.part_bytes), paths), strict=True))
            there = self.place.list(self.client)
            self._clear(there.keys() - {path.name for path in paths})
            to_send = [path for path in paths if not self._is_there(path, known[path], there)]
            if to_send:
                self._invalidate()
            self._send(to_send, pool)
        if versions != [_version(path) for path in paths]:
            raise DeployError(f"{self.folder} changed while it was pushed; push again.")
        self._write_manifest(known)
        kept = [path.name for path in paths if path not in to_send]
        return Pushed(tuple(path.name for path in to_send), tuple(kept))

    def _clear(self, others: Iterable[str]) -> None:
        """What another model left would be served as part of this one."""
        strays = sorted(name for name in others if is_one_of(name, (*MODEL_FILES, *HEAD_FILES)))
        if strays and not self.prune:
            raise DeployError(
                f"{self.place} holds other files of a model ({', '.join(strays)}); "
                "choose a prefix of its own, or remove them with --prune."
            )
        for name in strays:
            self.client.delete_object(Bucket=self.place.bucket, Key=self.place.key(name))

    def _is_there(self, path: Path, known: Digests, there: Mapping[str, StoredObject]) -> bool:
        return (
            path.name in there
            and there[path.name].size == path.stat().st_size
            and stored_checksum(self._target(path.name)) == known.stored
        )

    def _invalidate(self) -> None:
        """While files of two models lie under one prefix, neither of them is whole."""
        self.client.delete_object(Bucket=self.place.bucket, Key=self.place.key(MANIFEST))

    def _send(self, paths: Sequence[Path], pool: ThreadPoolExecutor) -> None:
        with progress_bar(str(self.place), sum(path.stat().st_size for path in paths)) as bar:
            for path in paths:
                upload(self._target(path.name), path, self.part_bytes, pool, bar.update)

    def _write_manifest(self, known: Mapping[Path, Digests]) -> None:
        files = tuple(
            ModelFile(path.name, path.stat().st_size, digest.sha256) for path, digest in known.items()
        )
        put(self._target(MANIFEST), Manifest(self.source, files).to_json())

    def _target(self, name: str) -> Target:
        encryption = (
            {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": self.kms_key, "BucketKeyEnabled": True}
            if self.kms_key
            else {}
        )
        return Target(self.client, self.place.bucket, self.place.key(name), encryption)


def model_files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """What the service reads, by name. Raises DeployError when there is nothing."""
    paths = sorted(path for path in folder.iterdir() if path.is_file() and is_one_of(path.name, patterns))
    if not paths:
        raise DeployError(f"{folder} holds no files of a model ({', '.join(patterns)}).")
    return paths


def _version(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns
