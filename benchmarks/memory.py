"""Memory of the service's processes, with what they share counted once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import NamedTuple

import psutil

DRIVER = "driver"
# Daemons of Ray that are programs, not Python scripts.
_PROGRAMS = ("raylet", "gcs_server")


class ProcessMemory(NamedTuple):
    """pss: proportional set size in bytes. A page that n processes share counts 1/n in each."""

    role: str
    pss: int


def of_tree(pid: int) -> list[ProcessMemory]:
    """Of process `pid`, which started the service, and all its descendants."""
    root = psutil.Process(pid)
    found = [ProcessMemory(DRIVER, root.memory_full_info().pss)]
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
        yield ProcessMemory(role, process.memory_full_info().pss)
        children = process.children()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return
    for child in children:
        yield from _measure(child, role)
