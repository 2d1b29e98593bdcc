"""What the service takes at one moment: memory, file descriptors, objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from benchmarks.chaos.service import Service
from benchmarks.memory import of_tree

MEGABYTE = 1e6


@dataclass(frozen=True, slots=True)
class Sample:
    """minutes: since the start. memory_mb: by role, what no file holds as well (ProcessMemory.own).
    descriptors: open in all processes. objects: in Ray's, handles of actors not counted."""

    minutes: float
    memory_mb: dict[str, float]
    descriptors: int
    objects: int

    @property
    def total_mb(self) -> float:
        return sum(self.memory_mb.values())


def take_sample(service: Service, minutes: float) -> Sample:
    memory: Counter[str] = Counter()
    for process in of_tree(service.pid):
        memory[process.role] += process.own
    return Sample(
        minutes,
        {role: bytes_ / MEGABYTE for role, bytes_ in memory.items()},
        sum(_descriptors(service.pid)),
        len({o["id"] for o in service.objects() if o["how"] != "ACTOR_HANDLE"}),
    )


def _descriptors(pid: int) -> Iterator[int]:
    root = psutil.Process(pid)
    for process in (root, *root.children(recursive=True)):
        try:
            yield process.num_fds()
        except psutil.NoSuchProcess:  # it has ended meanwhile
            continue
