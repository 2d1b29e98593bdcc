"""One process after the other is killed, the next as soon as the service has recovered."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

from benchmarks.chaos.bench import Bench, Disturbed, Progress, Result, aside
from benchmarks.chaos.replays import Loss, losses
from benchmarks.chaos.service import Service

CLASSES = {"drafter": "DrafterWorker", "front": "Verifier", "rank0": "EngineWorker", "rank": "RankWorker"}


class Kill(NamedTuple):
    """at: seconds since the epoch. recovered_s: until the service was whole again."""

    kind: str
    at: float
    recovered_s: float


async def kills(bench: Bench) -> Result:
    draw = random.Random(bench.options.seed)
    order = _order(bench.options.kills, draw)

    async def disturb(progress: Progress) -> list[Kill]:
        killed = []
        await progress.more(1)  # then the others are under way
        while not progress.over:
            killed.append(await aside(_kill, bench.service, next(order), draw))
        return killed

    disturbed = await bench.disturbed(disturb)
    return Result("kills", disturbed.verdict, _figures(disturbed, losses(bench.service.log_folder)))


def _order(kinds: Sequence[str], draw: random.Random) -> Iterator[str]:
    """Each kind once in a random order, and again."""
    while True:
        yield from draw.sample(kinds, len(kinds))


def _kill(service: Service, kind: str, draw: random.Random) -> Kill:
    victim = draw.choice(service.of_class(CLASSES[kind]))
    at = time.time()
    os.kill(victim.pid, signal.SIGKILL)
    waited = service.wait_until(
        lambda: victim not in service.actors() and service.is_whole, f"recovered from a killed {kind}"
    )
    return Kill(kind, at, waited)


def _figures(disturbed: Disturbed, lost: Sequence[Loss]) -> dict[str, Any]:
    killed: list[Kill] = disturbed.told
    gaps = list(_gaps(disturbed, lost))
    return {
        "kills": dict(Counter(kill.kind for kill in killed)),
        "recovery_s": {
            kind: median(kill.recovered_s for kill in killed if kill.kind == kind)
            for kind in dict.fromkeys(kill.kind for kill in killed)
        },
        "replayed": sum(loss.at >= killed[0].at for loss in lost),
        "gap_p50_s": median(gaps) if gaps else None,
        "gap_max_s": max(gaps, default=None),
    }


def _gaps(disturbed: Disturbed, lost: Sequence[Loss]) -> Iterator[float]:
    """Of every stream that lost its verifier, seconds from the kill to its next token."""
    epoch = time.time() - time.perf_counter()
    replies = {answer.reply.id: answer.reply for answer in disturbed.answers}
    for loss in lost:
        before = [kill.at for kill in disturbed.told if kill.at <= loss.at]
        if loss.answer not in replies or not before:
            continue
        later = [at + epoch for at, _ in replies[loss.answer].arrivals if at + epoch > loss.at]
        if len(replies[loss.answer].arrivals) > 1 and later:
            yield later[0] - before[-1]
