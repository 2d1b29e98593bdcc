"""How long a stream stands still when its verifier dies and another one is alive.

One stream at a time on an otherwise idle service, so that it is known whose verifier is whose, and what the
replayed text's prefill takes alone.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Iterator
from itertools import cycle
from statistics import median
from time import perf_counter
from typing import NamedTuple

from benchmarks.chaos.asks import LETTERS, STREAM, Ask
from benchmarks.chaos.bench import Bench, Result, aside
from benchmarks.chaos.client import Client
from benchmarks.chaos.replies import Reply
from benchmarks.chaos.service import Actor, Service
from benchmarks.errors import BenchmarkError

PROMPT, TOKENS = 1000, 600
BEFORE_KILL_S = 0.3
PREFILLS = 7
FACTOR, ALLOWANCE_S = 1.5, 2.0  # the figure to reach


class Gap(NamedTuple):
    """seconds: the longest pause after the kill, which may begin with it. replayed: tokens of prompt and
    answer until then."""

    kind: str
    seconds: float
    replayed: int


async def failover(bench: Bench) -> Result:
    draw = random.Random(bench.options.seed)
    kinds = cycle([kind for kind in bench.options.kills if kind != "drafter"])
    async with Client(bench.service.url) as client:
        gaps = [await _gap(bench.service, client, next(kinds), draw) for _ in range(bench.options.failovers)]
        prefill_s = await _prefill_s(client, round(median(gap.replayed for gap in gaps)), draw)
    p50, limit = median(gap.seconds for gap in gaps), FACTOR * prefill_s + ALLOWANCE_S
    figures = {
        "kills": {kind: sum(gap.kind == kind for gap in gaps) for kind in {gap.kind for gap in gaps}},
        "gap_p50_s": p50,
        "gap_max_s": max(gap.seconds for gap in gaps),
        "prefill_s": prefill_s,
        "limit_s": limit,
        "gaps": [gap._asdict() for gap in gaps],
    }
    slow = (f"streams stood still for {p50:.2f} s (median), over {limit:.2f} s",) if p50 > limit else ()
    return Result("failover", None, figures, slow)


async def _gap(service: Service, client: Client, kind: str, draw: random.Random) -> Gap:
    """Raises BenchmarkError where the stream fails."""
    await aside(service.wait_until_whole)
    stream = asyncio.create_task(client.ask(_ask(PROMPT, TOKENS, draw)))
    await asyncio.sleep(BEFORE_KILL_S)
    victim = await aside(_victim, service, kind)
    os.kill(victim.pid, signal.SIGKILL)
    killed = perf_counter()
    reply = await stream
    if not reply.complete:
        raise BenchmarkError(f"a stream did not outlive its {kind}: {reply.error}")
    await aside(service.wait_until, lambda: victim not in service.actors(), f"the {kind} is gone")
    return _longest(reply, kind, killed)


def _ask(prompt: int, tokens: int, draw: random.Random) -> Ask:
    text = "".join(draw.choices(LETTERS, k=prompt))
    return Ask(
        "failover", {"prompt": text, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **STREAM}
    )


def _victim(service: Service, kind: str) -> Actor:
    """Of the verifier that has the one request there is."""
    busy = [engine for engine in service.engines() if engine["unfinished"]]
    if len(busy) != 1:
        raise BenchmarkError(f"{len(busy)} verifiers are busy with one request")
    actors = service.actors()
    (rank0,) = (actor for actor in actors if actor.pid == busy[0]["pid"])
    if kind == "front":
        return next(actor for actor in actors if actor.name == "Verifier" and actor.node == rank0.node)
    if kind == "rank":
        return next(actor for actor in actors if actor.pid in busy[0]["rank_pids"])
    return rank0


def _longest(reply: Reply, kind: str, killed: float) -> Gap:
    """What was under way when the process died still arrives; then there is the longest pause of all."""
    late = [i for i, arrival in enumerate(reply.arrivals) if arrival.at > killed]
    starts = [max(killed, reply.arrivals[i - 1].at) for i in late]
    pauses = [(reply.arrivals[i].at - start, i) for i, start in zip(late, starts, strict=True)]
    seconds, place = max(pauses)
    before = reply.arrivals[place - 1].tokens if place else 0
    return Gap(kind, seconds, PROMPT + before)


async def _prefill_s(client: Client, length: int, draw: random.Random) -> float:
    """Median time to the first token of a text of this length that nobody has seen."""
    replies = [await client.ask(_ask(length, 1, draw)) for _ in range(PREFILLS)]
    return median(_first_token_s(replies))


def _first_token_s(replies: list[Reply]) -> Iterator[float]:
    for reply in replies:
        if not reply.complete:
            raise BenchmarkError(f"a request failed while nothing died: {reply.error}")
        yield reply.arrivals[0].at - reply.sent_at
