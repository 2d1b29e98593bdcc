"""`python -m benchmarks tensor-parallel`: what a verifier's ranks tell each other, and what that costs."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.answers import Answer, Prompt
from benchmarks.compare import same
from benchmarks.in_process import InProcess
from benchmarks.margins import MarginProbe
from benchmarks.report import Row, write_report
from benchmarks.table import render
from serving.config import ServeConfig
from serving.engine.local_ranks import local_ranks
from serving.models.ranks import Ranks, Spent

SECTION = "tensor_parallel"
PROMPT = 16
SETTINGS = ("model", "dtype", "ranks", "requests", "max_tokens")


@dataclass(frozen=True, slots=True)
class Steps:
    """Means over the steps of one wave, in seconds of rank 0. step: all of it; the rest are parts of it."""

    step: float
    control: float
    sums: float
    logits: float
    message_bytes: float
    answers: list[Answer]


def run(options: argparse.Namespace, arguments: list[str]) -> None:
    waves = [_prompts(count) for count in options.requests]
    one = _system(options, 1, None)
    alone = [_measure(one, prompts, None) for prompts in waves]
    rows = [_row(1, steps, steps, prompts, one) for steps, prompts in zip(alone, waves, strict=True)]
    for size in options.ranks:
        with local_ranks(_config(options, size)) as ranks:
            system = _system(options, size, ranks)
            for prompts, base in zip(waves, alone, strict=True):
                rows.append(_row(size, _measure(system, prompts, ranks), base, prompts, one))
    _print(options, rows)
    if options.json is not None:
        write_report(options.json, arguments, {name: getattr(options, name) for name in SETTINGS}, rows)


def _config(options: argparse.Namespace, size: int) -> ServeConfig:
    """Each rank has the threads that its share of the cores allows, one rank has all."""
    return ServeConfig.load(
        {
            "model": options.model,
            "dtype": options.dtype,
            "engine.tensor_parallel_size": size,
            "engine.enable_prefix_caching": False,
            "speculation.method": "prompt_lookup",
            "speculation.num_speculative_tokens": 0,
        }
    )


def _system(options: argparse.Namespace, size: int, ranks: Ranks | None) -> InProcess:
    return InProcess(_config(options, size), options.max_tokens, ranks)


def _prompts(count: int) -> list[Prompt]:
    """Random tokens: only their number matters here."""
    ids = np.random.default_rng(count).integers(10, 90, (count, PROMPT))
    return [tuple(row) for row in ids.tolist()]


def _measure(system: InProcess, prompts: list[Prompt], ranks: Ranks | None) -> Steps:
    """The second of two waves."""
    system.run(prompts, 0)
    stats, spent = system.engine.stats, ranks.spent if ranks else Spent()
    steps, seconds, before = stats.steps, stats.times.total, replace(spent)
    answers = system.run(prompts, 0).answers
    count = stats.steps - steps

    def mean(name: str) -> float:
        return float(getattr(spent, name) - getattr(before, name)) / count

    parts = {name: mean(name) for name in ("control", "sums", "logits", "message_bytes")}
    return Steps((stats.times.total - seconds) / count, **parts, answers=list(answers))


def _row(size: int, steps: Steps, alone: Steps, prompts: list[Prompt], one: InProcess) -> Row:
    margins = _margins(steps.answers, alone.answers, prompts, one)
    special: dict[str, Any] = {
        "ranks": size,
        "step_s": steps.step,
        "control_s": steps.control,
        "control_share": steps.control / steps.step,
        "message_bytes": steps.message_bytes,
        "sums_s": steps.sums,
        "logits_s": steps.logits,
        "margins_at_first_difference": margins,
    }
    identical = 1 - len(margins) / len(prompts)
    return Row(SECTION, "random tokens", f"{size} ranks", len(prompts), identical=identical, special=special)


def _margins(
    answers: list[Answer], alone: list[Answer], prompts: list[Prompt], one: InProcess
) -> list[float]:
    """How sure one rank was of its token where several said another one first."""
    probe, margins = MarginProbe(one.engine), []
    for answer, expected, prompt in zip(answers, alone, prompts, strict=True):
        if same(answer, expected):
            continue
        assert answer.token_ids is not None
        assert expected.token_ids is not None
        pairs = enumerate(zip(answer.token_ids, expected.token_ids, strict=False))
        at = next(at for at, (ours, theirs) in pairs if ours != theirs)
        margins.append(probe.margin((*prompt, *expected.token_ids[:at])))
    return margins


def _print(options: argparse.Namespace, rows: list[Row]) -> None:
    table = []
    for row in rows:
        special, parts = row.special, ("step_s", "control_s", "sums_s", "logits_s")
        step, control, sums, logits = (f"{special[name] * 1e3:.2f}" for name in parts)
        share, size = f"{special['control_share']:.1%}", f"{special['message_bytes']:.0f}"
        identical = f"{row.identical:.0%}"
        table.append(
            (str(special["ranks"]), str(row.concurrency), step, control, share, size, sums, logits, identical)
        )
    header = (
        "ranks",
        "requests",
        "step ms",
        "control ms",
        "share",
        "bytes",
        "sums ms",
        "logits ms",
        "identical",
    )
    print(render(f"{options.model}, {options.dtype}, plain decoding, of rank 0's steps", header, table))
    margins = [margin for row in rows for margin in row.special["margins_at_first_difference"]]
    if margins:
        print(f"one rank's lead at the first differences: {', '.join(f'{m:.1e}' for m in margins)}")
