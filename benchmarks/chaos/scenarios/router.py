"""The router is killed: its streams break off, and clients that ask again with their seed get the same."""

from __future__ import annotations

import os
import signal

from benchmarks.chaos.bench import Bench, Progress, Result, aside
from benchmarks.chaos.service import Service


async def router(bench: Bench) -> Result:
    async def disturb(progress: Progress) -> list[float]:
        recovered = []
        while not progress.over:
            await progress.more(bench.options.concurrency)  # or the same ones break off for ever
            recovered.append(await aside(_kill, bench.service))
        return recovered

    disturbed = await bench.disturbed(disturb, insist=True)
    recovered: list[float] = disturbed.told
    return Result(
        "router", disturbed.verdict, {"kills": {"router": len(recovered)}, "recovery_s": max(recovered)}
    )


def _kill(service: Service) -> float:
    (victim,) = service.of_class("Router")
    os.kill(victim.pid, signal.SIGKILL)
    return service.wait_until(lambda: victim not in service.actors() and service.is_whole, "a new router")
