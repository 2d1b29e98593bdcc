"""What verifiers and drafters tell the autoscaler of their load (replicas/scaling.py)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from serving.drafting.messages import SeqKey
from serving.types import TokenDelta

Clock = Callable[[], float]


class VerifierMeter:
    """How busy a step loop is and how fast its requests get their tokens, since it was last read.

    Used by the loop's thread alone.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._heard: dict[str, _Heard] = {}
        self._read()

    def arrived(self, request_id: str) -> None:
        self._heard[request_id] = _Heard(self._clock(), begun=False)

    def delivered(self, deltas: Iterable[TokenDelta]) -> None:
        """Tokens, and the ends of requests."""
        now = self._clock()
        for delta in deltas:
            heard = self._heard.pop(delta.request_id, None)
            if heard is None:
                continue
            if delta.token_ids:
                times = self._further if heard.begun else self._first
                times.add(now - heard.at, len(delta.token_ids) if heard.begun else 1)
                heard = _Heard(now, begun=True)
            if delta.finish_reason is None:
                self._heard[delta.request_id] = heard

    def stepped(self, seconds: float, drafts_wanted: int) -> None:
        """A step is over. drafts_wanted: sequences that trees were asked for."""
        self._busy_s += seconds
        self._drafting_s += seconds * drafts_wanted

    def take(self) -> dict[str, float]:
        """`busy`: share of the time in 0..1; `drafting`: sequences that trees were wanted for, on average.

        `first_token_s`, `token_s`: means, missing where there were no tokens.
        """
        elapsed = max(self._clock() - self._since, 1e-9)
        means = {"first_token_s": self._first.mean, "token_s": self._further.mean}
        load = {"busy": min(self._busy_s / elapsed, 1.0), "drafting": self._drafting_s / elapsed}
        self._read()
        return load | {name: mean for name, mean in means.items() if mean is not None}

    def _read(self) -> None:
        self._since = self._clock()
        self._busy_s = self._drafting_s = 0.0
        self._first, self._further = _Times(), _Times()


class DrafterMeter:
    """How busy a drafter is, since it was last read, and for how many sequences it is kept.

    A lease is a sequence that the drafter was asked about and not told the end of. It expires when nothing is
    heard of it for `lease_s`: its verifier is gone.
    """

    def __init__(self, lease_s: float, clock: Clock = time.monotonic) -> None:
        self._lease_s, self._clock = lease_s, clock
        self._leases: dict[SeqKey, float] = {}  # when they were last heard of
        self._since = clock()
        self._busy_s = 0.0

    def drafted(self, keys: Iterable[SeqKey], seconds: float) -> None:
        self._busy_s += seconds
        self._leases.update(dict.fromkeys(keys, self._clock()))

    def closed(self, keys: Sequence[SeqKey]) -> None:
        for key in keys:
            self._leases.pop(key, None)

    def take(self) -> dict[str, float]:
        """`leases`; `busy`: share of the time in 0..1."""
        now = self._clock()
        self._leases = {key: at for key, at in self._leases.items() if now - at <= self._lease_s}
        busy = min(self._busy_s / max(now - self._since, 1e-9), 1.0)
        self._since, self._busy_s = now, 0.0
        return {"leases": float(len(self._leases)), "busy": busy}


class _Heard(NamedTuple):
    """When a request came, or had its latest tokens."""

    at: float
    begun: bool


@dataclass(slots=True)
class _Times:
    seconds: float = 0.0
    count: int = 0

    def add(self, seconds: float, count: int) -> None:
        self.seconds += seconds
        self.count += count

    @property
    def mean(self) -> float | None:
        return self.seconds / self.count if self.count else None
