"""How many replicas a load asks for: numbers in, numbers out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from serving.config import ScalingTriggers

# Verifiers may be added for being busy or slow until each has this share of the sequences that it should
# have, and one at least. A step loop with one sequence is as busy as one with sixty, and hardly faster:
# there, more verifiers help nobody.
LEAST_SHARE = 0.25
# A replica goes when what is left for the others is this share of what brings another one: no to and fro.
HEADROOM = 0.8
# Of sums of floats: 1.0000000001 replicas are one.
ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class VerifierLoad:
    """Of all verifiers together, `reporting` of which have told theirs.

    requests: as Serve's handles count them; queued: those of them that no verifier has taken. running,
    waiting: sequences in the verifiers. busy, kv_usage: sums of shares in 0..1. first_token_s, token_s:
    means; None where there were no tokens.
    """

    reporting: int = 0
    requests: float = 0.0
    queued: float = 0.0
    running: float = 0.0
    waiting: float = 0.0
    busy: float = 0.0
    kv_usage: float = 0.0
    first_token_s: float | None = None
    token_s: float | None = None

    @property
    def sequences(self) -> float:
        """Running or waiting, wherever. What has just been sent is in no verifier's report yet."""
        return max(self.requests, self.queued + self.running + self.waiting)


@dataclass(frozen=True, slots=True)
class DrafterLoad:
    """Of all drafters together. wanted: sequences that verifiers want trees for, whether they get any or not.

    leases: sequences that drafters hold; busy: a sum of shares in 0..1.
    """

    wanted: float = 0.0
    leases: float = 0.0
    busy: float = 0.0


class Wanted(NamedTuple):
    """Replicas that a signal asks for. most: more than so many would not help."""

    replicas: float
    most: float = math.inf

    def filled(self, share: float = 1.0) -> float:
        """Replicas of which each has this share of what it may have."""
        return min(self.replicas / share, self.most)


def verifiers_wanted(load: VerifierLoad, sequences: float, triggers: ScalingTriggers) -> dict[str, Wanted]:
    """By signal. sequences: how many a verifier should have."""
    most = load.sequences / max(sequences * LEAST_SHARE, 1.0)
    return {
        "sequences": Wanted(load.sequences / sequences),
        "waiting": Wanted((load.queued + load.waiting) / triggers.waiting),
        "busy": Wanted(load.busy / triggers.busy, most),
        "kv_usage": Wanted(load.kv_usage / triggers.kv_usage, load.sequences),
        "first_token": Wanted(load.reporting * _slower(load.first_token_s, triggers.first_token_s), most),
        "token": Wanted(load.reporting * _slower(load.token_s, triggers.token_s), most),
    }


def drafters_wanted(load: DrafterLoad, triggers: ScalingTriggers) -> dict[str, Wanted]:
    """By signal."""
    return {
        "wanted": Wanted(load.wanted / triggers.drafter_sequences),
        "leases": Wanted(load.leases / triggers.drafter_sequences),
        "busy": Wanted(load.busy / triggers.drafter_busy, max(load.wanted, load.leases)),
    }


def replicas(now: int, wanted: Mapping[str, Wanted], least: int, most: int) -> int:
    """The number to have where `now` is the number there is: what the most demanding signal asks for.

    least, most: its bounds; `most` wins.
    """
    up = _whole(max(signal.filled() for signal in wanted.values()))
    down = _whole(max(signal.filled(HEADROOM) for signal in wanted.values()))
    return min(max(up if up > now else min(down, now), least), most)


def _slower(seconds: float | None, target: float | None) -> float:
    return 0.0 if seconds is None or target is None else seconds / target


def _whole(number: float) -> int:
    return math.ceil(number - ROUNDING)
