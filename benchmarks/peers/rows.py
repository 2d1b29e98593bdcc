"""From waves to rows: one per batch size and system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.answers import Answer, Method, Wave
from benchmarks.compare import same
from benchmarks.peers.methods import CANOPY, CANOPY_PLAIN, ONE_ONLY
from benchmarks.report import Row
from benchmarks.speed.batch import MIXED
from benchmarks.speed.tasks import tau
from benchmarks.stats import paired_ratio

SECTION = "peers"
# waves[method, size][repeat]; a method that cannot answer so many prompts at once has none.
Waves = Mapping[tuple[str, int], Sequence[Wave]]


def rows(waves: Waves, methods: Sequence[Method], sizes: Sequence[int]) -> list[Row]:
    return [
        _row(waves, method, size) if (method.name, size) in waves else _absent(method, size)
        for size in sizes
        for method in methods
    ]


def _row(waves: Waves, method: Method, size: int) -> Row:
    own, plain = waves[method.name, size], waves[CANOPY_PLAIN, size]
    rates = [wave.tokens_per_s for wave in own]
    speedup = paired_ratio(rates, [wave.tokens_per_s for wave in waves[method.baseline, size]])
    ahead = paired_ratio([wave.tokens_per_s for wave in waves[CANOPY, size]], rates)
    answers = _answers(own)
    pairs = list(zip(answers, _answers(plain), strict=True))
    return Row(
        SECTION,
        MIXED,
        method.name,
        size,
        tokens_per_s=median(rates),
        speedup_vs_plain=speedup.value,
        tau=tau(answers),
        identical=sum(same(ours, theirs) for ours, theirs in pairs) / len(pairs),
        special={
            "speedup_interval": list(speedup[1:]),
            "canopy_vs_this": ahead.value,
            "canopy_vs_this_interval": list(ahead[1:]),
            "batches": len(own),
            "tokens": sum(wave.num_tokens for wave in own),
            "seconds": sum(wave.seconds for wave in own),
        },
    )


def _absent(method: Method, size: int) -> Row:
    return Row(SECTION, MIXED, method.name, size, special={"why_not": ONE_ONLY})


def _answers(waves: Sequence[Wave]) -> list[Answer]:
    return [answer for wave in waves for answer in wave.answers]
