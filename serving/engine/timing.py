"""Where a step's time goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields


@dataclass(slots=True)
class StepTimes:
    """Seconds by phase, of one step or summed over many.

    schedule: planning and packing; choose: deciding how much of the trees is verified, and learning from what
    came of it; draft: the drafter's own compute; wire: the rest of what asking for trees and waiting for them
    took; forward: packed rows in, logits out; sample: choosing tokens and walking trees; compact: moving
    accepted KV; output: committing tokens and making deltas.
    """

    schedule: float = 0.0
    choose: float = 0.0
    draft: float = 0.0
    wire: float = 0.0
    forward: float = 0.0
    sample: float = 0.0
    compact: float = 0.0
    output: float = 0.0

    @property
    def total(self) -> float:
        return float(sum(self.by_phase().values()))

    def by_phase(self) -> dict[str, float]:
        """Every step asks: `dataclasses.asdict`, which copies deeply, takes ten times as long."""
        return {name: getattr(self, name) for name in PHASES}

    @contextmanager
    def measure(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            setattr(self, phase, getattr(self, phase) + time.perf_counter() - start)

    def add(self, other: StepTimes) -> None:
        for name in PHASES:
            setattr(self, name, getattr(self, name) + getattr(other, name))


PHASES = tuple(field.name for field in fields(StepTimes))
