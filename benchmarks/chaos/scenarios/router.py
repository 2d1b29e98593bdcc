"""The router is killed: its streams break off, and clients that ask again with their seed get the same."""

from __future__ import annotations

import asyncio
import os
import signal

from benchmarks.chaos.bench import Bench, Result, aside
from benchmarks.chaos.service import Service
from benchmarks.chaos.verdict import judge

BETWEEN_S = 2.0


async def router(bench: Bench) -> Result:
    async def disturb(all_sent: asyncio.Event) -> list[float]:
        recovered = []
        while not all_sent.is_set():
            await asyncio.sleep(BETWEEN_S)  # or nothing would ever be answered
            recovered.append(await aside(_kill, bench.service))
        return recovered

    disturbed = await bench.disturbed(disturb, insist=True)
    verdict = judge(disturbed.answers, bench.undisturbed)
    recovered: list[float] = disturbed.told
    return Result("router", verdict, {"kills": {"router": len(recovered)}, "recovery_s": max(recovered)})


def _kill(service: Service) -> float:
    (victim,) = service.of_class("Router")
    os.kill(victim.pid, signal.SIGKILL)
    return service.wait_until(lambda: victim not in service.actors() and service.is_whole, "a new router")
