"""From trials to rows: one per temperature, task and method."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks.evaluate.log import TrialLog
from benchmarks.evaluate.trials import Place, Trial
from benchmarks.identity import Outcome
from benchmarks.report import ALL_TASKS, Row
from benchmarks.speed.methods import PLAIN
from benchmarks.stats import compared, paired_ratio
from serving.types import SpeculationStats

SECTION = "evaluate"


def rows(places: Sequence[Place], methods: Sequence[str], log: TrialLog) -> list[Row]:
    """Of every task, then of all together, for each temperature."""
    made = []
    for temperature in dict.fromkeys(place.temperature for place in places):
        here = [place for place in places if place.temperature == temperature]
        by_task = {task: [p for p in here if p.task == task] for task in dict.fromkeys(p.task for p in here)}
        for task, each in {**by_task, ALL_TASKS: here}.items():
            plain = log.of(each, PLAIN)
            made += [_row(task, temperature, method, log.of(each, method), plain) for method in methods]
    return made


def _row(task: str, temperature: float, method: str, trials: list[Trial], plain: list[Trial]) -> Row:
    total, outcome = SpeculationStats(), Outcome(0, ())
    for trial in trials:
        total.add(trial.stats)
        outcome += trial.outcome
    speedup = paired_ratio([t.tokens_per_s for t in trials], [t.tokens_per_s for t in plain])
    decode = compared([t.decode_tokens_per_s for t in trials], [t.decode_tokens_per_s for t in plain])
    return Row(
        SECTION,
        task,
        method,
        concurrency=1,
        tokens_per_s=median(trial.tokens_per_s for trial in trials),
        speedup_vs_plain=speedup.value,
        tau=total.tau if total.steps else None,
        identical=outcome.share,
        special={
            "temperature": temperature,
            "speedup_interval": list(speedup[1:]),
            "decode_tokens_per_s": decode.rate,
            "decode_speedup_vs_plain": decode.ratio and decode.ratio.value,
            "decode_speedup_interval": decode.ratio and list(decode.ratio[1:]),
            "questions": len(trials),
            "answers": outcome.total,
            "tokens": sum(trial.tokens for trial in trials),
            **_counted(total),
            **outcome.as_json(),
        },
    )


def _counted(total: SpeculationStats) -> dict[str, Any]:
    """acceptance_by_depth[d]: share of the times that draft tokens of depth d + 1 were met, in which one of
    them was right. Steps in which nothing was drafted there say nothing of the drafter, and do not count."""
    offered = total.offered_per_position
    return {
        "verifications": total.steps,
        "committed_tokens": total.committed_tokens,
        "draft_tokens": total.draft_tokens,
        "accepted_tokens": total.accepted_tokens,
        "offered_by_depth": offered,
        "accepted_by_depth": [total.accepted_at(depth) for depth in range(len(offered))],
        "acceptance_by_depth": [total.accepted_at(depth) / count for depth, count in enumerate(offered)],
    }
