"""What urgent requests gain by mode latency, and what all together lose by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from benchmarks.load.drive import Record, Work
from benchmarks.stats import paired_ratio


def with_priorities(works: Sequence[Work], urgent: float | None, seed: int) -> list[Work]:
    """Each of priority 0 with probability `urgent`, else of 1, and there are both; None: all of 0."""
    if urgent is None:
        return list(works)
    rng = np.random.default_rng(seed)
    others = rng.random(len(works)) >= urgent
    others[rng.choice(len(works), 2, replace=False)] = False, True
    return [replace(work, priority=int(other)) for work, other in zip(works, others, strict=True)]


def by_priority(
    mine: Sequence[Record], baseline: Sequence[Record], sent: Sequence[Sequence[Work]]
) -> dict[str, object]:
    """What urgent and other users get, and the ratios to a baseline. sent[i]: of the i-th run."""
    found: dict[str, object] = {}
    for who, priority in (("urgent", 0), ("others", 1)):
        rates, base = (
            [_user_rate(record, works, priority) for record, works in zip(records, sent, strict=True)]
            for records in (mine, baseline)
        )
        found[f"{who}_tokens_per_s"] = median(rates)
        found[f"{who}_ratio"] = paired_ratio(rates, base)._asdict()
    return found


def _user_rate(record: Record, works: Sequence[Work], priority: int) -> float:
    """Tokens of an answer per second from arrival to end: the median of such requests."""
    answers = zip(record.outputs, record.latencies_s, works, strict=True)
    return median(len(output) / seconds for output, seconds, work in answers if work.priority == priority)
