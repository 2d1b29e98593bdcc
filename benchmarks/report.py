"""What a benchmark writes: rows with the same keys everywhere, and where they come from."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.machine import describe

ALL_TASKS = "all"
"""Task of the rows that are about the questions of every task."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of results; None where a key does not apply.

    tokens_per_s: the headline rate, prefill included. speedup_vs_plain: ratio of rates to plain decoding by
    the same way (in process, or over HTTP). tau: committed tokens per sequence and decode step, the bonus
    token included, prefill excluded, over the whole run. identical: share of answers equal to plain
    decoding's. `special` has what belongs to this section alone.
    """

    section: str
    task: str
    method: str
    concurrency: int
    tokens_per_s: float | None = None
    speedup_vs_plain: float | None = None
    tau: float | None = None
    identical: float | None = None
    special: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "special"} | self.special


def write_report(path: Path, arguments: list[str], settings: dict[str, Any], rows: list[Row]) -> None:
    report = {
        "command": shlex.join(["python", "-m", "benchmarks", *arguments]),
        **describe(),
        "settings": settings,
        "rows": [_rounded(row.as_json()) for row in rows],
    }
    path.write_text(json.dumps(report, indent=1) + "\n")


def _rounded(value: Any) -> Any:
    """Six significant digits: more would pretend."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list) else value
