"""Whether a RayService has become what its newest generation says."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from deploy.cluster.connection import Cluster
from deploy.cluster.pods import troubles
from deploy.cluster.rayservice import READY, RayServiceState, find
from deploy.errors import DeployError, NotHealthyError


class Phase(Enum):
    WAITING = "waiting"
    READY = "ready"
    FAILED = "failed"


class Verdict(NamedTuple):
    phase: Phase
    why: str


def judge(state: RayServiceState, generation: int) -> Verdict:
    """Ready: this generation is observed, no other cluster is on its way, all that Serve runs is healthy."""
    if state.observed < generation:
        return Verdict(Phase.WAITING, "KubeRay has not seen the change")
    for application in state.newest.applications:
        if application.status == "DEPLOY_FAILED":  # Serve does not try again by itself
            return Verdict(Phase.FAILED, f"application {application.name}: {_line(application.message)}")
    if state.changing:
        return Verdict(Phase.WAITING, f"Ray cluster {state.newest.name} is being brought up")
    if not state.has(READY):
        return Verdict(Phase.WAITING, "no replica serves yet")
    return _judge_applications(state)


def _judge_applications(state: RayServiceState) -> Verdict:
    if not state.active.applications:
        return Verdict(Phase.WAITING, "Serve has no application yet")
    for application in state.active.applications:
        for deployment in application.deployments:
            if deployment.status != "HEALTHY":
                return Verdict(Phase.WAITING, f"{deployment.name} is {deployment.status}")
        if application.status != "RUNNING":
            return Verdict(Phase.WAITING, f"application {application.name} is {application.status}")
    return Verdict(Phase.READY, "ready")


class Patience(NamedTuple):
    """Seconds: until it is given up, and between looks. `say` is told what it waits for, once per reason."""

    timeout_s: float
    poll_s: float
    say: Callable[[str], object]


def wait(cluster: Cluster, name: str, generation: int, patience: Patience) -> RayServiceState:
    """Until it is ready. Raises NotHealthyError when it fails or takes too long."""
    deadline, said = time.monotonic() + patience.timeout_s, ""
    while True:
        state = RayServiceState.of(_found(cluster, name))
        verdict = judge(state, generation)
        if verdict.phase is Phase.READY:
            return state
        if verdict.phase is Phase.FAILED:
            raise NotHealthyError(f"{verdict.why}.")
        if verdict.why != said:
            said = verdict.why
            patience.say(said)
        if time.monotonic() >= deadline:
            reasons = "; ".join([verdict.why, *troubles(cluster, state.newest.name)])
            raise NotHealthyError(f"not ready after {patience.timeout_s:g} s: {reasons}.")
        time.sleep(patience.poll_s)


def _found(cluster: Cluster, name: str) -> dict[str, object]:
    found = find(cluster, name)
    if found is None:
        raise DeployError(f"RayService {name} was deleted while it was rolled out.")
    return found


def _line(message: str) -> str:
    """The last line: of a traceback that says what went wrong."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else "deploying failed"
