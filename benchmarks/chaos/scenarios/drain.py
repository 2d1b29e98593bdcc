"""A verifier's node is drained, as on a spot notice: a new one comes, and Ray is told of the deadline."""

from __future__ import annotations

from benchmarks.chaos.bench import Bench, Progress, Result, aside
from benchmarks.chaos.service import Service

DEADLINE_S = 110  # what is left of a spot machine's two minutes


async def drain(bench: Bench) -> Result:
    async def disturb(_: Progress) -> float:
        return await aside(_drain, bench.service)

    disturbed = await bench.disturbed(disturb)
    return Result("drain", disturbed.verdict, {"drained_s": disturbed.told})


def _drain(service: Service) -> float:
    """Seconds until nothing of the service is left on the node."""
    node = service.of_class("Verifier")[0].node
    service.add_node("verifier")
    service.drain_node(node, DEADLINE_S)
    drained_s = service.wait_until(
        lambda: (
            all(actor.node != node for actor in service.actors() if actor.name in service.shape.processes)
            and service.is_whole
        ),
        "the node is drained",
        DEADLINE_S,
    )
    service.remove_node(node)
    return drained_s
