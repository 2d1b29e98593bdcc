"""How many replicas of each kind there are to be: policies that Serve's controller runs.

Nothing here may block, for it would hold up the controller. Bounds, delays, the averages of what replicas
report, and the number of sequences that a verifier should have (`target_ongoing_requests`) are Serve's: they
may be changed while serving. Serve pickles this module and imports those that it imports.
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Mapping
from datetime import datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

from ray.serve.config import AutoscalingContext
from ray.util.metrics import Gauge

from serving.config import ScalingTriggers
from serving.scaling.demand import (
    DrafterLoad,
    VerifierLoad,
    Wanted,
    drafters_wanted,
    replicas,
    verifiers_wanted,
)
from serving.scaling.schedule import minimum

Contexts = Mapping[Hashable, AutoscalingContext]
Decision = tuple[int, dict[str, Any]]


class _Scaling:
    """What the policies share. Raises ConfigError naming the trigger that is wrong."""

    def __init__(self, **triggers: Any) -> None:
        self._triggers = ScalingTriggers.load(triggers)
        self._zone = ZoneInfo(self._triggers.timezone)
        self._wanted = Gauge(
            "canopy_scaling_wanted",
            "Replicas that a signal asks for, before bounds and delays.",
            ("application", "deployment", "signal"),
        )

    def _verifiers(self, context: AutoscalingContext) -> int:
        wanted = verifiers_wanted(_verifier_load(context), _for_each(context), self._triggers)
        return self._settled(context, wanted, "verifiers")

    def _drafters(self, context: AutoscalingContext, verifiers: AutoscalingContext | None) -> int:
        load = DrafterLoad(
            wanted=_total(verifiers, "drafting") if verifiers else 0.0,
            leases=_total(context, "leases"),
            busy=_total(context, "busy"),
        )
        return self._settled(context, drafters_wanted(load, self._triggers), "drafters")

    def _settled(
        self, context: AutoscalingContext, wanted: dict[str, Wanted], role: Literal["verifiers", "drafters"]
    ) -> int:
        now = datetime.fromtimestamp(context.current_time or time.time(), self._zone)
        scheduled = minimum(self._triggers.hours, role, now) * _capacity(context)
        self._show(context, wanted | {"hours": Wanted(scheduled)})
        return _within_bounds(context, wanted, math.ceil(scheduled))

    def _show(self, context: AutoscalingContext, wanted: dict[str, Wanted]) -> None:
        tags = {"application": context.app_name or "", "deployment": context.deployment_name}
        for signal, number in wanted.items():
            self._wanted.set(number.filled(), tags | {"signal": signal})


class VerifierScaling(_Scaling):
    """For the verifiers alone, where no policy looks at the whole application."""

    def __call__(self, context: AutoscalingContext) -> Decision:
        return self._verifiers(context), {}


class DrafterScaling(_Scaling):
    """For the drafters alone: by their leases and work. Needs one: nothing else calls them."""

    def __call__(self, context: AutoscalingContext) -> Decision:
        return self._drafters(context, None), {}


class JointScaling(_Scaling):
    """For a whole application, by `autoscaling_policy` in a Serve config file.

    Drafters also follow what verifiers want of them, even while there are none; routers follow requests.
    """

    def __call__(self, contexts: Contexts) -> tuple[dict[Hashable, int], dict[Hashable, dict[str, Any]]]:
        verifiers = next((c for c in contexts.values() if c.deployment_name == "Verifier"), None)
        return {of: self._number(context, verifiers) for of, context in contexts.items()}, {}

    def _number(self, context: AutoscalingContext, verifiers: AutoscalingContext | None) -> int:
        if context is verifiers:
            return self._verifiers(context)
        if context.deployment_name == "DrafterPool":
            return self._drafters(context, verifiers)
        wanted = {"requests": Wanted(context.total_num_requests / _for_each(context))}
        self._show(context, wanted)
        return _within_bounds(context, wanted)


def _within_bounds(context: AutoscalingContext, wanted: dict[str, Wanted], least: int = 0) -> int:
    least = max(least, context.capacity_adjusted_min_replicas)
    return replicas(context.target_num_replicas, wanted, least, context.capacity_adjusted_max_replicas)


def _capacity(context: AutoscalingContext) -> float:
    """The share of its replicas that this cluster is to have, while another one takes over from it."""
    assert context.config is not None
    return float(context.capacity_adjusted_max_replicas / context.config.max_replicas)


def _for_each(context: AutoscalingContext) -> float:
    """Requests, or sequences, that a replica should have."""
    assert context.config is not None
    return float(context.config.target_ongoing_requests)


def _verifier_load(context: AutoscalingContext) -> VerifierLoad:
    return VerifierLoad(
        reporting=len(_reported(context, "busy")),
        requests=context.total_num_requests,
        queued=context.total_queued_requests or 0.0,
        running=_total(context, "running"),
        waiting=_total(context, "waiting"),
        busy=_total(context, "busy"),
        kv_usage=_total(context, "kv_usage"),
        first_token_s=_mean(context, "first_token_s"),
        token_s=_mean(context, "token_s"),
    )


def _reported(context: AutoscalingContext, name: str) -> Mapping[Any, float]:
    """By replica, averaged over Serve's look-back period."""
    return (context.aggregated_metrics or {}).get(name, {})


def _total(context: AutoscalingContext, name: str) -> float:
    return sum(_reported(context, name).values())


def _mean(context: AutoscalingContext, name: str) -> float | None:
    values = _reported(context, name).values()
    return sum(values) / len(values) if values else None
