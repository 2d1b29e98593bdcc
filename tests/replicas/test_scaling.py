"""What a load asks for: numbers of replicas that follow it, and that do not swing."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from ray.serve.config import AutoscalingConfig, AutoscalingContext

from serving.config import ScalingTriggers
from serving.replicas.scaling import DrafterScaling, JointScaling, VerifierScaling
from serving.scaling.demand import DrafterLoad, VerifierLoad, drafters_wanted, replicas, verifiers_wanted
from serving.scaling.schedule import minimum

SEQUENCES = 32.0
TRIGGERS = ScalingTriggers(first_token_s=1.0, token_s=0.05)


def verifiers(load: VerifierLoad, now: int = 1, least: int = 1, most: int = 16) -> int:
    return replicas(now, verifiers_wanted(load, SEQUENCES, TRIGGERS), least, most)


@pytest.mark.parametrize(
    ("load", "wanted"),
    [
        (VerifierLoad(), 1),
        (VerifierLoad(reporting=1, requests=64, running=64), 2),
        (VerifierLoad(reporting=1, requests=0, running=30, waiting=12), 2),
        (VerifierLoad(reporting=1, requests=62, queued=31, running=31), 4),  # that no verifier has taken
        (VerifierLoad(reporting=1, running=24, kv_usage=1.0), 2),
        (VerifierLoad(reporting=1, running=1, kv_usage=1.0), 1),
        (VerifierLoad(reporting=1, running=24, busy=1.0), 2),
        (VerifierLoad(reporting=1, running=1, busy=1.0), 1),  # a second one would have nothing to do
        (VerifierLoad(reporting=1, running=24, busy=0.5, first_token_s=2.5), 3),
        (VerifierLoad(reporting=1, running=24, busy=0.5, token_s=0.2), 3),
        (VerifierLoad(reporting=1, requests=10_000, running=32), 16),
    ],
)
def test_the_scarcest_thing_decides(load: VerifierLoad, wanted: int) -> None:
    assert verifiers(load) == wanted


def test_busy_verifiers_stop_multiplying_once_they_have_little_each() -> None:
    """Each that runs anything is busy all the time, however many there are."""
    now = 1
    for _ in range(20):
        busy = min(now, 64)
        now = verifiers(VerifierLoad(reporting=now, running=64, busy=busy), now, most=64)
    assert now == 64 / (SEQUENCES / 4)


def test_between_growing_and_shrinking_there_is_a_band() -> None:
    """Whatever number a constant load leads to is the one that it keeps."""
    for running in range(0, 400, 7):
        load = VerifierLoad(reporting=1, requests=running, running=running)
        fewest = verifiers(load)
        assert verifiers(load, now=fewest) == fewest
        assert fewest <= verifiers(load, now=16) <= fewest / 0.8 + 1
    assert verifiers(VerifierLoad(requests=63, running=63), now=3) == 3
    assert verifiers(VerifierLoad(requests=51, running=51), now=3) == 2
    assert verifiers(VerifierLoad(reporting=2, running=1, busy=1.0, kv_usage=1.0), now=2) == 1


def test_nothing_to_do_may_be_nobody_and_one_request_brings_one() -> None:
    assert verifiers(VerifierLoad(), now=1, least=0) == 0
    assert verifiers(VerifierLoad(requests=1, queued=1), now=0, least=0) == 1


@pytest.mark.parametrize(
    ("load", "now", "wanted"),
    [
        (DrafterLoad(wanted=128), 1, 2),  # though none drafts for them yet
        (DrafterLoad(leases=65), 1, 2),
        (DrafterLoad(wanted=10, leases=10, busy=0.9), 1, 2),
        (DrafterLoad(wanted=1, leases=1, busy=0.9), 2, 1),  # a sequence has one drafter
        (DrafterLoad(), 4, 0),  # sequences that decode plainly need none
    ],
)
def test_drafters_follow_what_is_wanted_of_them(load: DrafterLoad, now: int, wanted: int) -> None:
    assert replicas(now, drafters_wanted(load, TRIGGERS), least=0, most=8) == wanted


@pytest.mark.parametrize(
    ("now", "least"),
    [
        ("2026-11-30 06:59", 0),  # a Monday
        ("2026-11-30 07:00", 4),
        ("2026-11-30 12:00", 6),  # two entries hold
        ("2026-11-30 20:00", 0),
        ("2026-12-05 12:00", 0),
        ("2026-12-05 23:00", 2),  # from Saturday
        ("2026-12-06 02:59", 2),  # into Sunday
        ("2026-12-06 23:30", 0),
    ],
)
def test_hours(now: str, least: int) -> None:
    weekdays = ["mon", "tue", "wed", "thu", "fri"]
    entries: list[dict[str, Any]] = [
        {"days": weekdays, "start": "07:00", "end": "20:00", "verifiers": 4, "drafters": 1},
        {"start": "11:00", "end": "14:00", "days": ["mon"], "verifiers": 6},
        {"days": ["sat"], "start": "22:00", "end": "03:00", "verifiers": 2},
    ]
    hours = ScalingTriggers.load({"hours": entries}).hours
    assert minimum(hours, "verifiers", datetime.fromisoformat(now)) == least


def test_the_hours_are_a_least_number_and_the_largest_one_holds() -> None:
    assert verifiers(VerifierLoad(), now=1, least=4) == 4
    assert verifiers(VerifierLoad(), now=9, least=20, most=16) == 16


def context(
    deployment: str,
    reported: list[dict[str, float]],
    now: int,
    *,
    at: str = "2026-11-30 12:00+00:00",
    **given: Any,
) -> AutoscalingContext:
    """As Serve makes them: what each replica reported, by signal and replica."""
    names = {name for report in reported for name in report}
    options: dict[str, Any] = {
        "deployment_id": deployment,
        "deployment_name": deployment,
        "app_name": "canopy",
        "current_num_replicas": now,
        "target_num_replicas": now,
        "running_replicas": [],
        "total_num_requests": 0.0,
        "total_queued_requests": 0.0,
        "aggregated_metrics": {name: {str(i): r[name] for i, r in enumerate(reported)} for name in names},
        "raw_metrics": {},
        "capacity_adjusted_min_replicas": 0,
        "capacity_adjusted_max_replicas": 16,
        "policy_state": {},
        "last_scale_up_time": None,
        "last_scale_down_time": None,
        "current_time": datetime.fromisoformat(at).timestamp(),
        "config": AutoscalingConfig(min_replicas=0, max_replicas=16, target_ongoing_requests=SEQUENCES),
    }
    return AutoscalingContext(**options | given)


def test_drafters_come_for_verifiers_that_have_none_and_routers_for_requests() -> None:
    report = {"running": 32.0, "waiting": 0.0, "busy": 1.0, "kv_usage": 0.1, "drafting": 50.0}
    contexts = {
        "v": context("Verifier", [report, report], now=2),
        "d": context("DrafterPool", [], now=0),
        "r": context("Router", [], now=1, total_num_requests=65.0),
    }
    numbers, _ = JointScaling()(contexts)
    assert numbers == {"v": 3, "d": 2, "r": 3}
    assert VerifierScaling()(contexts["v"])[0] == 3
    assert DrafterScaling()(contexts["d"])[0] == 0


@pytest.mark.parametrize(
    ("at", "most", "least"),
    [
        ("2026-11-30 11:30+00:00", 16, 4),  # half past twelve in Berlin
        ("2026-11-30 10:30+00:00", 16, 0),
        ("2026-11-30 11:30+00:00", 8, 2),  # a cluster that is to have half of its replicas
    ],
)
def test_hours_are_of_a_place_and_for_a_whole_cluster(at: str, most: int, least: int) -> None:
    policy = VerifierScaling(
        timezone="Europe/Berlin", hours=[{"start": "12:00", "end": "13:00", "verifiers": 4}]
    )
    quiet = context("Verifier", [], now=1, at=at, capacity_adjusted_max_replicas=most)
    assert policy(quiet)[0] == least
