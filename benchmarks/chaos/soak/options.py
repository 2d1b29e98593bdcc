"""What `python -m benchmarks soak` may be told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.chaos.options import ServiceOptions


@dataclass(frozen=True, slots=True)
class SoakOptions(ServiceOptions):
    """minutes: of load; the first `warm_up` of them, as a share, are not judged. every_s: between samples."""

    minutes: float
    warm_up: float
    every_s: float
    concurrency: int
    max_tokens: int
    seed: int
    json: Path | None
    figure: Path | None
