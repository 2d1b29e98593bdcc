"""Which requests were replayed, as the routers' logs tell it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

MESSAGE = "a request has lost its verifier"


class Loss(NamedTuple):
    """at: seconds since the epoch. answer: the id of the answer whose request it was."""

    at: float
    answer: str


def losses(folder: Path) -> list[Loss]:
    """All that any router has logged, in Ray's folder of logs."""
    return [loss for file in folder.glob("worker-*.err") for loss in _in_file(file)]


def _in_file(file: Path) -> Iterator[Loss]:
    for line in file.read_text(errors="replace").splitlines():
        if MESSAGE not in line or not line.startswith("{"):
            continue
        said = json.loads(line)
        yield Loss(datetime.fromisoformat(said["time"]).timestamp(), said["request_id"].rpartition("-")[0])
