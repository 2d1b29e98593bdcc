"""What is left of requests and of processes that died, once nothing is asked any more."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from benchmarks.chaos.service import LOOK_EVERY_S, Service
from benchmarks.memory import role_of

SETTLED_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Footprint:
    """unfinished: requests in the engines. troubles: bookkeeping of blocks that does not add up. actors,
    processes: by class or role. objects: those that processes refer to, by who does and how, less handles of
    actors."""

    unfinished: int
    troubles: tuple[str, ...]
    actors: dict[str, int]
    placement_groups: dict[str, int]
    processes: dict[str, int]
    objects: dict[str, int]

    def left_over(self, before: Footprint) -> list[str]:
        """What there is more of than before, in words; nothing is as it should be."""
        found = [f"{self.unfinished} unfinished requests"] if self.unfinished else []
        found += [f"blocks of an engine: {trouble}" for trouble in self.troubles]
        for what in ("actors", "placement_groups", "processes", "objects"):
            mine, base = getattr(self, what), getattr(before, what)
            found += [
                f"{what} {name}: {count}, before {base.get(name, 0)}"
                for name, count in mine.items()
                if count > base.get(name, 0)
            ]
        return found

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def footprint(service: Service) -> Footprint:
    engines, actors = service.engines(), service.actors()
    return Footprint(
        unfinished=sum(engine["unfinished"] for engine in engines),
        troubles=tuple(engine["trouble"] for engine in engines if engine["trouble"]),
        actors=dict(Counter(actor.name for actor in actors)),
        placement_groups=service.placement_groups(),
        processes=_processes(service),
        objects=_objects(service, {actor.pid: actor.name for actor in actors}),
    )


def _objects(service: Service, names: dict[int, str]) -> dict[str, int]:
    """names: of actors, by process."""
    held = ((names.get(o["pid"], "another process"), o["how"]) for o in service.objects())
    return dict(Counter(f"{who}, {how}" for who, how in held if how != "ACTOR_HANDLE"))


def settled(service: Service, before: Footprint) -> Footprint:
    """As soon as nothing is left over, or what there is after a minute."""
    end = time.monotonic() + SETTLED_TIMEOUT_S
    while True:
        now = footprint(service)
        if not now.left_over(before) or time.monotonic() > end:
            return now
        time.sleep(LOOK_EVERY_S)


def _processes(service: Service) -> dict[str, int]:
    """Of the service's own classes, whatever Ray knows of them: a process may outlive its actor."""
    mine = {name for name, count in service.shape.processes.items() if count}
    roles = (_role(process) for process in psutil.Process(service.pid).children(recursive=True))
    return dict(Counter(role for role in roles if role in mine))


def _role(process: psutil.Process) -> str | None:
    try:
        return role_of(process.cmdline())
    except psutil.NoSuchProcess:  # ZombieProcess too
        return None
