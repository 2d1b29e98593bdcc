"""What a soak comes to: trends after the warm-up, held against the limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.chaos.soak.samples import Sample
from benchmarks.chaos.soak.trend import Trend, trend

MEMORY_LIMIT = 1.0
"""Megabytes a minute that the memory of all processes may grow by."""


@dataclass(frozen=True, slots=True)
class Judged:
    """roles: memory of each. failures: requests that got no whole answer, in words, the first of them."""

    answers: int
    failures: tuple[str, ...]
    memory: Trend
    roles: dict[str, Trend]
    descriptors: Trend
    objects: Trend

    @property
    def troubles(self) -> list[str]:
        found = [f"a request failed: {failure}" for failure in self.failures]
        if self.memory.slope >= MEMORY_LIMIT:
            found.append(f"memory grows by {self.memory.slope:.2f} MB a minute")
        if self.descriptors.grows:
            found.append(f"open files grow by {self.descriptors.slope:.2f} a minute")
        if self.objects.grows:
            found.append(f"objects grow by {self.objects.slope:.2f} a minute")
        return found


def judge(samples: Sequence[Sample], answers: int, failures: Sequence[str]) -> Judged:
    """samples: those after the warm-up."""

    def of(value: Callable[[Sample], float]) -> Trend:
        return trend([s.minutes for s in samples], [value(s) for s in samples])

    roles = sorted({role for sample in samples for role in sample.memory_mb})
    return Judged(
        answers,
        tuple(failures),
        of(lambda sample: sample.total_mb),
        {role: of(lambda sample, role=role: sample.memory_mb.get(role, 0.0)) for role in roles},  # type: ignore[misc]
        of(lambda sample: sample.descriptors),
        of(lambda sample: sample.objects),
    )
