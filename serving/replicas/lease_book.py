"""Who drafts with one drafter, and for how many sequences: what the others are told before they choose."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

# Verifiers renew their leases this often; new drafters are noticed as late.
RENEW_S = 10.0
# A verifier that died gives nothing back: its lease ends when it has missed two renewals.
LEASE_S = 2.5 * RENEW_S


class Lease(NamedTuple):
    """What a drafter replica answers. worker: the name to reach it by; node: where it runs; load: sequences
    that others draft with it."""

    worker: str
    node: str
    load: int


class _Held(NamedTuple):
    sequences: int
    until: float


@dataclass(slots=True)
class LeaseBook:
    """Leases of one drafter by holder. They expire."""

    clock: Callable[[], float] = time.monotonic
    _held: dict[str, _Held] = field(default_factory=dict)

    def renew(self, holder: str, sequences: int) -> int:
        """Note that `holder` drafts for so many sequences here. Returns how many all others do."""
        self._held[holder] = _Held(sequences, self.clock() + LEASE_S)
        return self.sequences - sequences

    @property
    def sequences(self) -> int:
        """Of all leases that are still held: the drafter's load."""
        now = self.clock()
        self._held = {holder: held for holder, held in self._held.items() if held.until > now}
        return sum(held.sequences for held in self._held.values())
