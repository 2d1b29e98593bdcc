"""A pushed model into a folder that appears only when every digest is right."""

from __future__ import annotations

import errno
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError

from deploy.aws import code_of
from deploy.errors import DeployError
from deploy.models.manifest import MANIFEST, Manifest, ModelFile
from deploy.models.place import Place, StoredObject
from deploy.models.ranges import Journal, Range, fetch
from serving.models.cache import build_once
from serving.models.download import DigestMismatchError, accept, progress_bar

WORKERS = 16
RETRY_PAUSES_S = (0.2, 1.0)

logger = logging.getLogger(__name__)


class Pull(NamedTuple):
    """`folder`: what appears, with the manifest in it."""

    client: Any
    place: Place
    folder: Path

    def run(self) -> str:
        """What was done, in words. Raises DeployError, ModelLoadError and the errors of the client."""
        content = self._read_manifest()
        manifest = Manifest.from_json(content, self.place.key(MANIFEST))
        if self._holds(content, manifest):
            return f"{len(manifest.files)} files were there"
        build_once(self.folder, lambda partial: self._fetch_all(partial, content, manifest))
        return f"{len(manifest.files)} files, {manifest.size / 1e9:.2f} GB, verified"

    def _read_manifest(self) -> bytes:
        try:
            answer = self.client.get_object(Bucket=self.place.bucket, Key=self.place.key(MANIFEST))
        except ClientError as error:
            if code_of(error) == "NoSuchKey":
                raise DeployError(
                    f"{self.place} holds no whole model: {MANIFEST}, which a push writes last, is missing."
                ) from error
            raise
        return bytes(answer["Body"].read())

    def _holds(self, content: bytes, manifest: Manifest) -> bool:
        """Whether the folder is this model. An empty folder is none; any other is not ours to replace."""
        try:
            self.folder.rmdir()
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno == errno.EBUSY:
                raise DeployError(f"{self.folder} is a mount: name a folder below it.") from error
            return self._is_whole(content, manifest)
        return False

    def _is_whole(self, content: bytes, manifest: Manifest) -> bool:
        own = self.folder / MANIFEST
        if not own.is_file() or own.read_bytes() != content:
            raise DeployError(f"{self.folder} is there and is not this model; name another folder.")
        for file in manifest.files:
            path = self.folder / file.name
            if not path.is_file() or path.stat().st_size != file.size:
                raise DeployError(f"{path} is damaged; remove {self.folder} and pull again.")
        return True

    def _fetch_all(self, partial: Path, content: bytes, manifest: Manifest) -> None:
        _keep_only_parts_of(content, partial)
        there = self.place.list(self.client)
        with ThreadPoolExecutor(WORKERS) as pool, progress_bar(str(self.place), manifest.size) as bar:
            for file in manifest.files:
                if (partial / file.name).exists():
                    bar.update(file.size)
                else:
                    self._fetch(partial, file, there.get(file.name), pool, bar)
        wanted = {MANIFEST, *(file.name for file in manifest.files)}
        for stray in {path.name for path in partial.iterdir()} - wanted:
            (partial / stray).unlink()

    def _fetch(
        self, partial: Path, file: ModelFile, there: StoredObject | None, pool: ThreadPoolExecutor, bar: Any
    ) -> None:
        key = self.place.key(file.name)
        if there is None or there.size != file.size:
            raise DeployError(f"{key} is not what its manifest says; push the model again.")

        def get(part: Range) -> bytes:
            arguments = {"Bucket": self.place.bucket, "Key": key, "IfMatch": there.etag}
            return _read(self.client, {**arguments, "Range": part.header})

        part, notes = partial / f"{file.name}.part", partial / f"{file.name}.ranges"
        fetch(get, part, file.size, Journal(notes, there.etag), pool, bar.update)
        notes.unlink()
        try:
            accept(part, partial / file.name, file.sha256)
        except DigestMismatchError as error:
            raise DeployError(
                f"{key}: {error}; pull again, and push the model again if that is no help."
            ) from error


def _read(client: Any, arguments: dict[str, str]) -> bytes:
    """A range's bytes. The client repeats requests by itself, but no answer that breaks off."""
    for pause in RETRY_PAUSES_S:
        try:
            return bytes(client.get_object(**arguments)["Body"].read())
        except (HTTPClientError, IncompleteReadError) as error:
            logger.warning("%s: %s; again", arguments["Key"], error)
            time.sleep(pause)
    return bytes(client.get_object(**arguments)["Body"].read())


def _keep_only_parts_of(content: bytes, partial: Path) -> None:
    """Files that an interrupted pull finished count only if it was a pull of this same manifest."""
    own = partial / MANIFEST
    if not own.is_file() or own.read_bytes() != content:
        for path in partial.iterdir():
            path.unlink()
        own.write_bytes(content)
