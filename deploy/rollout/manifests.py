"""The objects of a release, as `helm template` renders them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from deploy.errors import DeployError

Object = dict[str, Any]
_KIND = "RayService"


class Manifests(NamedTuple):
    """`service`: the RayService; `others`: everything that it leans on, in the order of the file."""

    service: Object
    others: tuple[Object, ...]

    @property
    def name(self) -> str:
        return str(self.service["metadata"]["name"])

    @classmethod
    def parse(cls, text: str, where: str) -> Manifests:
        """Raises DeployError, naming `where`, unless these are objects with exactly one RayService."""
        try:
            objects = [document for document in yaml.safe_load_all(text) if document is not None]
        except yaml.YAMLError as error:
            raise DeployError(f"{where} is no YAML: {' '.join(str(error).split())}.") from error
        for document in objects:
            if not _is_object(document):
                raise DeployError(f"{where} holds a document without apiVersion, kind or metadata.name.")
        services = [document for document in objects if document["kind"] == _KIND]
        if len(services) != 1:
            raise DeployError(f"{where} holds {len(services)} RayServices; a roll-out is of one.")
        return cls(services[0], tuple(document for document in objects if document["kind"] != _KIND))


def read(path: str) -> str:
    """A file, or standard input for `-`. Raises DeployError."""
    if path == "-":
        return sys.stdin.read()
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise DeployError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error


def render(chart: Path, release: str, namespace: str, values: Sequence[Path], settings: Sequence[str]) -> str:
    """What `helm template` makes of a chart. Raises DeployError with what Helm says."""
    command = ["helm", "template", release, str(chart), "--namespace", namespace]
    for file in values:
        command += ["--values", str(file)]
    for setting in settings:
        command += ["--set", setting]
    try:
        rendered = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise DeployError(
            "--chart needs Helm: `helm` is not installed; render elsewhere and pass the file."
        ) from error
    if rendered.returncode:
        raise DeployError(
            f"helm template failed: {' '.join(rendered.stderr.split()).removeprefix('Error: ')}"
        )
    return rendered.stdout


def _is_object(document: Any) -> bool:
    return (
        isinstance(document, dict)
        and all(isinstance(document.get(field), str) for field in ("apiVersion", "kind"))
        and isinstance(document.get("metadata"), dict)
        and isinstance(document["metadata"].get("name"), str)
    )
