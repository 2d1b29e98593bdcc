"""What verifiers and drafters tell of their load."""

from __future__ import annotations

import pytest

from serving.drafting.messages import SeqKey
from serving.replicas.load import DrafterMeter, VerifierMeter
from serving.types import FinishReason, TokenDelta


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_verifier_tells_how_busy_it_is_and_how_fast() -> None:
    clock = Clock()
    meter = VerifierMeter(clock)
    meter.arrived("a")
    meter.arrived("never begun")
    clock.now += 3  # one step of a second among them
    meter.stepped(1.0, drafts_wanted=6)
    meter.delivered([TokenDelta("a", (1,))])
    clock.now += 1
    meter.delivered([TokenDelta("a", (2, 3, 4)), TokenDelta("never begun", (), FinishReason.ABORT)])
    clock.now += 1
    meter.delivered([TokenDelta("a", (5,), FinishReason.LENGTH)])
    assert meter.take() == pytest.approx(
        {"busy": 0.2, "drafting": 6 / 5, "first_token_s": 3.0, "token_s": 2 / 4}
    )
    clock.now += 1
    assert meter.take() == {"busy": 0.0, "drafting": 0.0}


def test_a_lease_counts_until_it_is_closed_or_expires() -> None:
    clock = Clock()
    meter = DrafterMeter(lease_s=30.0, clock=clock)
    keys = [SeqKey("verifier", number) for number in range(3)]
    meter.drafted(keys, 2.0)
    clock.now += 10
    meter.closed([keys[0], SeqKey("verifier", 99)])
    assert meter.take() == {"leases": 2.0, "busy": pytest.approx(0.2)}
    clock.now += 15
    meter.drafted([keys[1]], 0.0)
    clock.now += 10  # the verifier of the other one is gone
    assert meter.take() == {"leases": 1.0, "busy": 0.0}
