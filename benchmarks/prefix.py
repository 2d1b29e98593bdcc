"""`python -m benchmarks prefix`: time to first token, cold and with a cached prefix, in turns."""

from __future__ import annotations

import argparse
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.answers import Prompt
from benchmarks.in_process import InProcess
from benchmarks.report import Row, write_report
from benchmarks.stats import Estimate, paired_ratio
from benchmarks.table import render
from serving.config import ServeConfig

SECTION = "prefix"
MAX_TOKENS = 16  # enough for a request to be drafted for
TARGET = 0.25


class Timed(NamedTuple):
    """One request: until its first token was there, and how much of its prompt was cached."""

    first_token_s: float
    cached_tokens: int


def run(options: argparse.Namespace, arguments: list[str]) -> None:
    config = ServeConfig.load({"model": options.model})
    system = InProcess(config, MAX_TOKENS)
    cold: list[Timed] = []
    warm: list[Timed] = []
    vocabulary = system.engine.card().vocab_size
    for pair in range(options.repeats + 1):
        first, second = _pair(pair, options.prefix, options.suffix, vocabulary)
        cold.append(_ask(system, first))
        warm.append(_ask(system, second))
    rows = rows_of(cold[1:], warm[1:], options.prefix)
    _print(config.model_name, options.prefix, rows)
    if options.json is not None:
        names = ("model", "prefix", "suffix", "repeats")
        write_report(options.json, arguments, {name: getattr(options, name) for name in names}, rows)


def _pair(seed: int, prefix: int, suffix: int, vocabulary: int) -> tuple[Prompt, Prompt]:
    """Two prompts of random tokens with the first `prefix` in common: only their number matters here."""
    ids = np.random.default_rng(seed).integers(0, vocabulary, prefix + 2 * suffix).tolist()
    shared, first, second = ids[:prefix], ids[prefix : prefix + suffix], ids[prefix + suffix :]
    return (*shared, *first), (*shared, *second)


def _ask(system: InProcess, prompt: Prompt) -> Timed:
    before = system.engine.stats.prefix_hits
    (answer,) = system.run([prompt], None).answers
    return Timed(answer.first_s, system.engine.stats.prefix_hits - before)


def rows_of(cold: list[Timed], warm: list[Timed], prefix: int) -> list[Row]:
    """Of pairs, cold[i] and warm[i]: their medians, and the second's time as a share of the first's."""
    ratio = paired_ratio([each.first_token_s for each in warm], [each.first_token_s for each in cold])
    return [_row("cold", cold, prefix, Estimate(1.0, 1.0, 1.0)), _row("cached", warm, prefix, ratio)]


def _row(method: str, times: list[Timed], prefix: int, ratio: Estimate) -> Row:
    return Row(
        SECTION,
        "random tokens",
        method,
        1,
        special={
            "prefix_tokens": prefix,
            "cached_tokens": median(each.cached_tokens for each in times),
            "ttft_s": median(each.first_token_s for each in times),
            "ttft_vs_cold": ratio.value,
            "ttft_vs_cold_interval": list(ratio[1:]),
            "pairs": len(times),
        },
    )


def _print(model: str, prefix: int, rows: list[Row]) -> None:
    table = [
        (
            row.method,
            f"{row.special['cached_tokens']:.0f}",
            f"{row.special['ttft_s'] * 1e3:.1f}",
            f"{row.special['ttft_vs_cold']:.1%}",
        )
        for row in rows
    ]
    title = f"{model}, two requests with {prefix} tokens in common"
    print(render(title, ("request", "cached tokens", "first token ms", "of cold"), table))
    low, high = rows[-1].special["ttft_vs_cold_interval"]
    met = "met" if rows[-1].special["ttft_vs_cold"] <= TARGET else "not met"
    print(f"at most {TARGET:.0%} of cold: {met} (95% interval {low:.1%} to {high:.1%})")
