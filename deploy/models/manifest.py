"""The list of a model's files with their digests, which is written last: where it is, the model is whole."""

from __future__ import annotations

import json
from typing import NamedTuple

from deploy.errors import DeployError

MANIFEST = "canopy-manifest.json"
_VERSION = 1


class ModelFile(NamedTuple):
    """`size` in bytes, `sha256` hexadecimal."""

    name: str
    size: int
    sha256: str


class Manifest(NamedTuple):
    """`source`: what was pushed, in the operator's words."""

    source: str
    files: tuple[ModelFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def to_json(self) -> bytes:
        document = {"version": _VERSION, "source": self.source, "files": [f._asdict() for f in self.files]}
        return json.dumps(document, indent=2).encode()

    @classmethod
    def from_json(cls, content: bytes, where: str) -> Manifest:
        """Raises DeployError, naming `where`, for anything that `to_json` does not write."""
        try:
            document = json.loads(content)
            version, source = document["version"], document["source"]
            files = tuple(ModelFile(f["name"], int(f["size"]), f["sha256"]) for f in document["files"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DeployError(f"{where} is no manifest of a model.") from error
        if version != _VERSION:
            raise DeployError(f"{where} has version {version}; this command knows version {_VERSION}.")
        if strange := [file.name for file in files if "/" in file.name or file.name in ("", ".", "..")]:
            raise DeployError(f"{where} names files outside its folder: {', '.join(strange)}.")
        return cls(source, files)
