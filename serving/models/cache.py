"""Folders that are built once: whole or not there at all, by one process at a time."""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from serving.errors import ModelLoadError

logger = logging.getLogger(__name__)


def build_once(folder: Path, build: Callable[[Path], None]) -> Path:
    """`folder`, made by `build(partial)` when it is not there yet.

    `partial` becomes `folder` when `build` returns. It may hold what an interrupted build left behind, for
    `build` to continue from or to overwrite. Raises what `build` raises, and ModelLoadError when the cache
    cannot be written.
    """
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(folder.with_name(folder.name + ".lock")):
            if not folder.is_dir():
                partial = folder.with_name(folder.name + ".partial")
                partial.mkdir(exist_ok=True)
                build(partial)
                partial.rename(folder)
    except OSError as error:
        reason = error.strerror or error
        raise ModelLoadError(f"the cache {folder.parent} cannot be written: {reason}.") from error
    return folder


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold a lock that the kernel drops with the process. The file stays: removing it would race."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("waiting for another process to finish %s", path.stem)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
