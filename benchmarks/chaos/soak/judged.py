"""What a soak comes to: trends after the warm-up, held against the limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from benchmarks.chaos.soak.samples import Sample
from benchmarks.chaos.soak.trend import Trend, trend

MEMORY_LIMIT = 1.0
"""Megabytes a minute that the memory of the service's processes may grow by, all together."""
DESCRIPTORS_LIMIT = 0.5
"""Open files a minute. A connection that is first needed late adds two, once; what leaks with every request,
health check (1 s) or lease (10 s) adds six a minute at least."""
NOTED = 0.1
"""Megabytes a minute from which on a role of Ray's is named in the verdict."""
OURS = "the service"
RAYS = "Ray"


@dataclass(frozen=True, slots=True)
class Judged:
    """service, ray: memory by role, of the service's own processes and of all others; whose: each together.
    failures: requests that got no whole answer, in words, the first of them."""

    answers: int
    failures: tuple[str, ...]
    memory: Trend
    whose: dict[str, Trend]
    service: dict[str, Trend]
    ray: dict[str, Trend]
    descriptors: Trend
    objects: Trend

    @property
    def troubles(self) -> list[str]:
        found = [f"a request failed: {failure}" for failure in self.failures]
        if self.whose[OURS].slope >= MEMORY_LIMIT:
            found.append(f"the service's memory grows by {self.whose[OURS].slope:.2f} MB a minute")
        if self.descriptors.grows and self.descriptors.slope >= DESCRIPTORS_LIMIT:
            found.append(f"open files grow by {self.descriptors.slope:.2f} a minute")
        if self.objects.grows:
            found.append(f"objects grow by {self.objects.slope:.2f} a minute")
        return found

    @property
    def verdict(self) -> str:
        """One line: what the service did, and what those processes did that are not held against a limit."""
        words = "FAILED: " + "; ".join(self.troubles) if self.troubles else "passed"
        return f"{words}. Memory in MB a minute: {_slopes(self.whose)}; of Ray's: {_slopes(self.ray, NOTED)}"


def judge(
    samples: Sequence[Sample], answers: int, failures: Sequence[str], service: Collection[str]
) -> Judged:
    """samples: those after the warm-up. service: roles of the service's own processes."""

    def of(value: Callable[[Sample], float]) -> Trend:
        return trend([s.minutes for s in samples], [value(s) for s in samples])

    def together(roles: Collection[str]) -> Trend:
        return of(lambda sample: sum(mb for role, mb in sample.memory_mb.items() if role in roles))

    roles = sorted({role for sample in samples for role in sample.memory_mb})
    ours = [role for role in roles if role in service]
    rays = [role for role in roles if role not in service]
    return Judged(
        answers,
        tuple(failures),
        together(roles),
        {OURS: together(ours), RAYS: together(rays)},
        {role: together([role]) for role in ours},
        {role: together([role]) for role in rays},
        of(lambda sample: sample.descriptors),
        of(lambda sample: sample.objects),
    )


def _slopes(trends: Mapping[str, Trend], least: float = -inf) -> str:
    told = [f"{name} {each.slope:+.2f}" for name, each in trends.items() if each.slope >= least]
    return ", ".join(told) or "none grows"
