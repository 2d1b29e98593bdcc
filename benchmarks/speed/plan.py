"""How much there is to do, and about how long it will take."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.speed import batch, breakdown, footprint, tasks
from benchmarks.speed.options import Options

# Rough figures for the default model on two cores; once it runs, the progress bar knows better.
TOKENS_PER_S = {"engine": 50.0, "http": 45.0, "transformers": 20.0}
START_S = {"engine": 5.0, "http": 30.0, "transformers": 10.0}
MEMORY_S = 75.0
# What each request more adds to the time of a wave, as a share of the time of one alone.
SHARE_OF_NEXT_REQUEST = 0.15


class Plan(NamedTuple):
    """runs: of one request or one wave. seconds: of everything."""

    runs: int
    seconds: float


def plan(options: Options, questions: int) -> Plan:
    """For `questions` of all tasks together."""
    singles = [1] * questions * options.repeats
    waves = _waves(options)
    methods = dict.fromkeys(options.through, waves * 2)  # plain and prompt lookup
    if tasks.SECTION in options.sections:
        methods = {way: sizes + singles * 2 for way, sizes in methods.items()}
    elif options.with_transformers:
        methods[options.through[0]] = methods[options.through[0]] + singles
    if options.with_transformers:
        methods["transformers"] = singles
    sizes_by_way = {way: sizes for way, sizes in methods.items() if sizes}
    seconds = MEMORY_S if footprint.SECTION in options.sections else 0.0
    for way, sizes in sizes_by_way.items():
        seconds += START_S[way] + sum(_seconds(options, way, size) for size in sizes)
    return Plan(sum(map(len, sizes_by_way.values())), seconds)


def _waves(options: Options) -> list[int]:
    """Sizes of the waves that every method but transformers answers."""
    sizes: list[int] = []
    if batch.SECTION in options.sections:
        largest = max(options.concurrency)
        for size in options.concurrency:
            sizes += [size] * batch.num_waves(largest, size)
    if breakdown.SECTION in options.sections:
        sizes.append(breakdown.REQUESTS)
    return sizes * options.repeats


def _seconds(options: Options, way: str, size: int) -> float:
    alone = options.max_tokens / TOKENS_PER_S[way]
    return alone * (1 + SHARE_OF_NEXT_REQUEST * (size - 1))
