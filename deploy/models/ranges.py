"""A file fetched in ranges, several at once, that remembers which of them it has."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

RANGE_BYTES = 16 * 2**20


class Range(NamedTuple):
    """`start` and `size` in bytes."""

    start: int
    size: int

    @property
    def header(self) -> str:
        return f"bytes={self.start}-{self.start + self.size - 1}"


class Journal:
    """Which ranges of a version (an ETag) of an object are in the file beside it; survives this process."""

    def __init__(self, path: Path, etag: str) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.done: set[int] = set()
        if lines[:1] == [etag]:
            self.done = {int(line) for line in lines[1:] if line.isdigit()}
        else:
            path.write_text(f"{etag}\n")

    def add(self, start: int) -> None:
        """A whole line at once, so that lines of several threads do not mix."""
        with self._path.open("a") as file:
            file.write(f"{start}\n")
        self.done.add(start)


def fetch(
    get: Callable[[Range], Any],
    file: Path,
    size: int,
    journal: Journal,
    pool: ThreadPoolExecutor,
    progress: Callable[[int], object],
) -> None:
    """Bring the ranges that `journal` lacks into `file`. `get` gives a range's bytes."""
    ranges = [Range(start, min(RANGE_BYTES, size - start)) for start in range(0, size, RANGE_BYTES)]
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.ftruncate(descriptor, size)

        def bring(part: Range) -> None:
            if part.start not in journal.done:
                _write(descriptor, get(part), part.start)
                journal.add(part.start)
            progress(part.size)

        list(pool.map(bring, ranges))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(descriptor: int, content: bytes, offset: int) -> None:
    rest = memoryview(content)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written
