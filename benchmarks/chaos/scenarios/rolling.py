"""A rolling update: the same model with another setting, so that every replica is replaced, one by one."""

from __future__ import annotations

from benchmarks.chaos.bench import Bench, Progress, Result, aside
from benchmarks.chaos.service import Service

CHANGE = {"engine.max_num_seqs": 24}
REPLACED_TIMEOUT_S = 300.0


async def rolling(bench: Bench) -> Result:
    async def disturb(_: Progress) -> float:
        return await aside(_update, bench.service)

    disturbed = await bench.disturbed(disturb)
    return Result("rolling", disturbed.verdict, {"replaced_s": disturbed.told})


def _update(service: Service) -> float:
    """Seconds until no process of the old version is left, with room for one verifier more meanwhile."""
    old = {actor for actor in service.actors() if actor.name in service.shape.processes}
    nodes = _verifiers_nodes(service) | {service.add_node("verifier")}
    service.deploy(CHANGE)
    replaced_s = service.wait_until(
        lambda: not old & set(service.actors()) and service.is_whole, "all is replaced", REPLACED_TIMEOUT_S
    )
    for node in nodes - _verifiers_nodes(service):
        service.remove_node(node)
    return replaced_s


def _verifiers_nodes(service: Service) -> set[str]:
    return {actor.node for actor in service.of_class("Verifier")}
