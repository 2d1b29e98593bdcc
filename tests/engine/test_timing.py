"""Step times: where they are measured, and how they add up."""

from __future__ import annotations

import time

import pytest

from serving.engine.timing import StepTimes


def test_phases_add_up() -> None:
    times = StepTimes(draft=1.0)
    with times.measure("forward"):
        time.sleep(0.02)
    once = times.forward
    assert once >= 0.02
    with times.measure("forward"):
        time.sleep(0.01)
    assert times.forward >= once + 0.01
    assert times.total == pytest.approx(1.0 + times.forward)
    total = StepTimes(wire=0.5)
    total.add(times)
    total.add(times)
    assert total == StepTimes(draft=2.0, wire=0.5, forward=2 * times.forward)


def test_time_counts_also_when_the_phase_fails() -> None:
    times = StepTimes()

    def fail() -> None:
        with times.measure("wire"):
            raise ValueError("lost")

    with pytest.raises(ValueError, match="lost"):
        fail()
    assert times.wire > 0
