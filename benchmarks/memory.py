"""Memory of the service's processes, with what they share counted once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import NamedTuple

import psutil

DRIVER = "driver"
# Daemons of Ray that are programs, not Python scripts.
_PROGRAMS = ("raylet", "gcs_server")


class ProcessMemory(NamedTuple):
    """pss: proportional set size in bytes. A page that n processes share counts 1/n in each.

    own: of it what is not a page of a file. Those of libraries are shared with whatever else runs on the
    machine, and count for more when that ends.
    """

    role: str
    pss: int
    own: int


def of_tree(pid: int) -> list[ProcessMemory]:
    """Of process `pid`, which started the service, and all its descendants."""
    root = psutil.Process(pid)
    found = [_memory(DRIVER, pid)]
    for child in root.children():
        found += _measure(child, DRIVER)
    return found


def role_of(command: list[str]) -> str | None:
    """What a process does, by its command line; None where that says nothing (a helper of its parent).

    Ray titles an actor's process `ray::Class.method`, a replica's `ray::ServeReplica:application:deployment`.
    """
    title = command[0] if command else ""
    if title.startswith("ray::"):
        return title.removeprefix("ray::").rpartition(":")[2].partition(".")[0]
    names = [PurePath(part).name for part in command]
    known = [name.removesuffix(".py") for name in names if name in _PROGRAMS or name.endswith(".py")]
    return known[0] if known else None


def _measure(process: psutil.Process, parent_role: str) -> Iterator[ProcessMemory]:
    """A process that has just ended counts for nothing."""
    try:
        role = role_of(process.cmdline()) or parent_role
        yield _memory(role, process.pid)
        children = process.children()
    except (psutil.NoSuchProcess, ProcessLookupError, FileNotFoundError):
        return
    for child in children:
        yield from _measure(child, role)


def _memory(role: str, pid: int) -> ProcessMemory:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kilobytes = {name: int(size) for name, size, _ in map(str.split, lines)}
    pss, own = kilobytes["Pss:"], kilobytes["Pss_Anon:"] + kilobytes["Pss_Shmem:"]
    return ProcessMemory(role, 1024 * pss, 1024 * own)
