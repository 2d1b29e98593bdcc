"""The least number of replicas by the hours of the week."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from serving.config import WEEK, Hours


def minimum(hours: Sequence[Hours], of: Literal["verifiers", "drafters"], now: datetime) -> int:
    """The most that an entry which holds now asks for; 0 where none does. now: by the entries' clock."""
    return max((getattr(entry, of) for entry in hours if holds(entry, now)), default=0)


def holds(entry: Hours, now: datetime) -> bool:
    """Hours that go past midnight belong to the day on which they began."""
    today, yesterday = WEEK[now.weekday()], WEEK[now.weekday() - 1]
    clock = now.time()
    if entry.start < entry.end:
        return today in entry.days and entry.start <= clock < entry.end
    return (today in entry.days and clock >= entry.start) or (yesterday in entry.days and clock < entry.end)
