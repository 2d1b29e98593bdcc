"""`python -m benchmarks deterministic`: what `engine.deterministic` costs where torch computes, in turns."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.answers import Prompt, Wave
from benchmarks.errors import BenchmarkError
from benchmarks.in_process import InProcess
from benchmarks.report import Row, write_report
from benchmarks.stats import Estimate, paired_ratio
from benchmarks.table import render
from serving.config import ServeConfig

SECTION = "deterministic"
MAX_TOKENS = 48
# With an m of its own choice each side would take other steps.
SETTINGS = {"engine.attention_backend": "torch", "speculation.num_speculative_tokens": 5}


@dataclass(frozen=True, slots=True)
class Load:
    """What is timed: steps while all requests decode, or the first token of one. m None: as configured."""

    name: str
    requests: int
    prompt: int
    m: int | None
    first_token: bool = False

    def seconds(self, wave: Wave) -> float:
        if self.first_token:
            return wave.answers[0].first_s
        if wave.window is None:
            raise BenchmarkError(f"{self.name}: an answer ended before another began")
        return wave.window.seconds / wave.window.steps


LOADS = [
    Load("prompt of 480 tokens", 1, 480, 0, first_token=True),
    Load("1 request, plain", 1, 64, 0),
    Load("1 request, m = 5", 1, 64, None),
    Load("8 requests, m = 5", 8, 48, None),
]


class Sides(NamedTuple):
    """Seconds of each repeat, as torch is and deterministic."""

    off: list[float]
    on: list[float]

    @property
    def cost(self) -> Estimate:
        return paired_ratio(self.on, self.off)


def run(options: argparse.Namespace, arguments: list[str]) -> None:
    off, on = (_system(options, deterministic) for deterministic in (False, True))
    rows = []
    for load in LOADS:
        sides = _measure(off, on, load, options.repeats)
        rows.append(_row(load, sides))
    _print(rows)
    if options.json is not None:
        settings = {name: getattr(options, name) for name in ("model", "dtype", "repeats")}
        write_report(options.json, arguments, settings, rows)


def _system(options: argparse.Namespace, deterministic: bool) -> InProcess:
    settings = {"model": options.model, "dtype": options.dtype, "engine.deterministic": deterministic}
    return InProcess(ServeConfig.load(settings | SETTINGS), MAX_TOKENS)


def _measure(off: InProcess, on: InProcess, load: Load, repeats: int) -> Sides:
    """The first pair is not counted. Each pair has prompts of its own, so that no prefix is cached."""
    sides = Sides([], [])
    for pair in range(repeats + 1):
        prompts = _prompts(load, pair, off.engine.card().vocab_size)
        for system, times in zip((off, on), sides, strict=True):
            times.append(load.seconds(system.run(prompts, load.m)))
    return Sides(sides.off[1:], sides.on[1:])


def _prompts(load: Load, seed: int, vocabulary: int) -> list[Prompt]:
    """Random tokens: only their number matters here."""
    ids = np.random.default_rng([seed, load.prompt]).integers(0, vocabulary, (load.requests, load.prompt))
    return [tuple(row) for row in ids.tolist()]


def _row(load: Load, sides: Sides) -> Row:
    special = {
        "off_s": median(sides.off),
        "on_s": median(sides.on),
        "cost": sides.cost.value,
        "cost_interval": list(sides.cost[1:]),
        "pairs": len(sides.on),
    }
    return Row(SECTION, "random tokens", load.name, load.requests, special=special)


def _print(rows: list[Row]) -> None:
    table = []
    for row in rows:
        low, high = row.special["cost_interval"]
        off, on, cost = (row.special[name] for name in ("off_s", "on_s", "cost"))
        table.append(
            (row.method, f"{off * 1e3:.0f}", f"{on * 1e3:.0f}", f"{cost:.2f}x", f"{low:.2f}-{high:.2f}")
        )
    header = ("time to first token, then of a step", "off, ms", "on, ms", "cost", "95% interval")
    print(render("engine.deterministic in torch", header, table))
