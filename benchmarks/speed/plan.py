"""How much there is to do, and about how long it will take."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.speed import batch, breakdown, footprint, tasks, tau
from benchmarks.speed.methods import WITH_HEAD, WITHOUT_HEAD
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
    count = {way: num_methods(options, way) for way in options.through}
    methods = {way: waves * count[way] + _alone(options, way) * count[way] for way in options.through}
    if tasks.SECTION in options.sections:
        methods = {way: sizes + singles * count[way] for way, sizes in methods.items()}
    elif options.with_transformers:
        methods[options.through[0]] = methods[options.through[0]] + singles
    if options.with_transformers:
        methods["transformers"] = singles
    if options.measures_tau:
        asked = questions * len(tau.SIZES) * len(WITH_HEAD["engine"])
        methods["engine"] = methods.get("engine", []) + [1] * asked
    sizes_by_way = {way: sizes for way, sizes in methods.items() if sizes}
    seconds = MEMORY_S if footprint.SECTION in options.sections else 0.0
    for way, sizes in sizes_by_way.items():
        seconds += START_S[way] + sum(_seconds(options, way, size) for size in sizes)
    return Plan(sum(map(len, sizes_by_way.values())), seconds)


def num_methods(options: Options, way: str) -> int:
    return len(WITHOUT_HEAD[way]) + (len(WITH_HEAD[way]) if options.has_head else 0)


def _alone(options: Options, way: str) -> list[int]:
    """Sizes of the waves of the breakdown that are asked in process only."""
    if breakdown.SECTION not in options.sections or way != "engine":
        return []
    return [1] * breakdown.waves_at(1) * options.repeats


def _waves(options: Options) -> list[int]:
    """Sizes of the waves that every method but transformers answers."""
    sizes: list[int] = []
    if batch.SECTION in options.sections:
        largest = max(options.concurrency)
        for size in options.concurrency:
            sizes += [size] * batch.num_waves(largest, size)
    if breakdown.SECTION in options.sections:
        sizes += [size for size in breakdown.SIZES if size > 1]
    return sizes * options.repeats


def _seconds(options: Options, way: str, size: int) -> float:
    alone = options.max_tokens / TOKENS_PER_S[way]
    return alone * (1 + SHARE_OF_NEXT_REQUEST * (size - 1))
