"""What `python -m benchmarks load` may be told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """concurrency: clients of the closed loop. rates: requests a second of the open loop. fixed: values of m.
    urgent: share of the requests that are of priority 0, the rest being of 1; None: all are alike. floors: of
    mode latency, which is measured where some are urgent. requests: of a run, per client (and for each rate).
    repeats: of every run; a change of load is traced once where `settle`."""

    questions: Path
    tasks: tuple[str, ...]
    limit: int
    max_tokens: int
    temperature: float
    concurrency: tuple[int, ...]
    rates: tuple[float, ...]
    fixed: tuple[int, ...]
    urgent: float | None
    floors: tuple[float, ...]
    requests: int
    repeats: int
    settle: bool
    model: str
    dtype: str
    set: tuple[str, ...]
    json: Path | None
    figure: Path | None
