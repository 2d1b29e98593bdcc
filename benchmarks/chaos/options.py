"""What `python -m benchmarks chaos` may be told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

KINDS = ("drafter", "front", "rank0", "rank")
"""Processes that `kills` ends: a drafter's worker, a verifier's front, its engine, another of its ranks."""

SCENARIOS = ("kills", "failover", "router", "rolling", "drain", "node")
GENERATED = "generated"


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """model: `generated` or as in the service's settings. verifiers: each on a Ray node of its own."""

    model: str
    dtype: str
    tensor_parallel_size: int
    verifiers: int
    drafters: int
    set: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChaosOptions(ServiceOptions):
    """requests: of each scenario, at least. failovers: verifiers killed in turn with one stream under way."""

    scenarios: tuple[str, ...]
    requests: int
    concurrency: int
    max_tokens: int
    kills: tuple[str, ...]
    failovers: int
    seed: int
    json: Path | None
