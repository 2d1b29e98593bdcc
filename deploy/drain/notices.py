"""What EC2 says through EventBridge about machines that are going."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

SPOT_NOTICE_S = 120
_HEALTH_CHANGE = "scheduledChange"
_LEAVING = {"stopping", "shutting-down"}  # stopped and terminated machines have nothing to drain any more


class Notice(NamedTuple):
    """`instances`: their ids, none where the message is about nothing that must be drained.
    `deadline_s`: until they go, or how long a drain without haste may take.
    """

    kind: str
    instances: tuple[str, ...]
    deadline_s: float


def read(body: str, rebalance: bool) -> Notice | None:
    """None for what is no message of this kind. `rebalance`: whether to drain at mere recommendations."""
    try:
        event = json.loads(body)
        kind, detail = event["detail-type"], event["detail"]
        reader = _READERS.get(kind)
        if reader is None:
            return None
        if reader is _read_rebalance and not rebalance:
            return Notice(kind, (), 0)
        return reader(kind, detail)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _read_spot(kind: str, detail: Mapping[str, Any]) -> Notice:
    return Notice(kind, (detail["instance-id"],), SPOT_NOTICE_S)


def _read_rebalance(kind: str, detail: Mapping[str, Any]) -> Notice:
    return Notice(kind, (detail["instance-id"],), 600)


def _read_state(kind: str, detail: Mapping[str, Any]) -> Notice:
    """The machine is ending already: seconds are left, whatever is planned."""
    return Notice(kind, (detail["instance-id"],) if detail["state"] in _LEAVING else (), 30)


def _read_health(kind: str, detail: Mapping[str, Any]) -> Notice:
    """Maintenance and retirement, announced days before."""
    affected = tuple(entity["entityValue"] for entity in detail.get("affectedEntities", []))
    concerns = detail["service"] == "EC2" and detail["eventTypeCategory"] == _HEALTH_CHANGE
    return Notice(kind, affected if concerns else (), 600)


_READERS: dict[str, Callable[[str, Mapping[str, Any]], Notice]] = {
    "EC2 Spot Instance Interruption Warning": _read_spot,
    "EC2 Capacity Reservation Instance Interruption Warning": _read_spot,
    "EC2 Instance Rebalance Recommendation": _read_rebalance,
    "EC2 Instance State-change Notification": _read_state,
    "AWS Health Event": _read_health,
}
