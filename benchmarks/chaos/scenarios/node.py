"""A node with a verifier is gone from one moment to the next; a new one comes when it has been missed."""

from __future__ import annotations

import asyncio

from benchmarks.chaos.bench import Bench, Progress, Result, aside
from benchmarks.chaos.service import Service

MISSED_AFTER_S = 5.0


async def node(bench: Bench) -> Result:
    async def disturb(_: Progress) -> float:
        lost = (await aside(bench.service.of_class, "Verifier"))[0].node
        await aside(bench.service.kill_node, lost)
        await asyncio.sleep(MISSED_AFTER_S)
        return await aside(_replace, bench.service, lost)

    disturbed = await bench.disturbed(disturb)
    return Result(
        "node", disturbed.verdict, {"kills": {"node": 1}, "recovery_s": MISSED_AFTER_S + disturbed.told}
    )


def _replace(service: Service, lost: str) -> float:
    service.add_node("verifier")
    return service.wait_until(
        lambda: all(actor.node != lost for actor in service.actors()) and service.is_whole,
        "all runs on another node",
    )
