"""The step-time model: it learns what steps take, and nothing from a machine that stalls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.spec.cost import FEW, ForwardProfile, StepCost, StepLoad
from serving.spec.medians import MedianTable

ROWS = (1, 2, 4, 8, 16, 32, 64)
PROFILE = ForwardProfile(
    ROWS,
    decode_s=tuple(0.010 + 0.001 * rows for rows in ROWS),
    prefill_s=tuple(0.010 + 0.0008 * rows for rows in ROWS),
    kv_token_s=1e-6,
    kv_row_s=1e-7,
)
ALONE = StepLoad(1)


def test_the_profile_is_what_was_measured_and_goes_on_beyond() -> None:
    assert PROFILE.seconds(ALONE, [1, 6, 64, 128]) == pytest.approx([0.011, 0.016, 0.074, 0.138])


def test_prompt_rows_cost_no_logits_and_context_costs_by_row_and_sequence() -> None:
    chunk = PROFILE.seconds(StepLoad(1, prefill_tokens=31), 1)
    assert chunk == pytest.approx(0.010 + 0.0008 * 32 + 0.0002)
    long = PROFILE.seconds(StepLoad(2, kv_tokens=1000), 8) - PROFILE.seconds(StepLoad(2), 8)
    assert long == pytest.approx(1000 * (1e-6 + 4 * 1e-7))


def test_a_profile_survives_json() -> None:
    assert ForwardProfile.from_json(PROFILE.to_json()) == PROFILE


def observed(cost: StepCost, rows: int, slower: float, times: int = 20) -> None:
    for _ in range(times):
        cost.observe(ALONE, rows, slower * float(PROFILE.seconds(ALONE, rows)), beside_s=0.002)


def test_a_machine_that_gets_slower_is_so_at_every_size() -> None:
    cost = StepCost(PROFILE)
    observed(cost, 4, slower=1.0)
    observed(cost, 32, slower=1.0)
    observed(cost, 4, slower=3.0, times=40)
    for rows in (1, 4, 32, 64):
        assert float(cost.step_s(ALONE, [rows])[0]) == pytest.approx(
            3.0 * float(PROFILE.seconds(ALONE, rows)) + 0.002, rel=0.02
        )


def test_a_profile_that_is_wrong_at_one_size_is_corrected_there() -> None:
    cost = StepCost(PROFILE)
    for _ in range(40):
        observed(cost, 8, slower=1.0, times=1)
        observed(cost, 64, slower=1.5, times=1)
    at_8, at_64 = cost.step_s(ALONE, [8, 64]) - 0.002
    assert at_8 == pytest.approx(0.018, rel=0.05)
    assert at_64 == pytest.approx(1.5 * 0.074, rel=0.05)


def test_stalls_are_ignored() -> None:
    calm, stalled = StepCost(PROFILE), StepCost(PROFILE)
    for step in range(100):
        for cost in (calm, stalled):
            slower = 50.0 if cost is stalled and step % 4 == 0 else 1.0
            cost.observe(ALONE, 8, slower * 0.018, beside_s=slower * 0.002)
            cost.observe_drafting(1, slower * 0.003)
    assert stalled.step_s(ALONE, ROWS) == pytest.approx(calm.step_s(ALONE, ROWS))
    assert stalled.draft_s(1) == calm.draft_s(1) == pytest.approx(0.003)


def test_steps_with_prompt_chunks_do_not_touch_what_is_known_of_the_others() -> None:
    cost = StepCost(PROFILE)
    before = cost.step_s(ALONE, ROWS)
    for _ in range(20):
        cost.observe(StepLoad(1, prefill_tokens=30), 1, 1.0, beside_s=1.0)
    assert cost.step_s(ALONE, ROWS) == pytest.approx(before)


@given(st.lists(st.tuples(st.integers(1, 64), st.floats(0.2, 5.0)), max_size=60))
def test_more_rows_never_cost_less(steps: list[tuple[int, float]]) -> None:
    cost = StepCost(PROFILE)
    for rows, slower in steps:
        observed(cost, rows, slower, times=1)
    seconds = cost.step_s(StepLoad(1), np.arange(1, 200))
    assert (np.diff(seconds) >= 0).all()
    assert (seconds > 0).all()


def test_drafting_costs_nothing_until_it_was_measured_and_grows_with_sequences() -> None:
    cost = StepCost(PROFILE)
    assert cost.draft_s(4) == 0.0
    cost.observe_drafting(1, 0.002)
    cost.observe_drafting(16, 0.010)
    assert 0.002 == cost.draft_s(1) < cost.draft_s(8) < cost.draft_s(16) == cost.draft_s(64) == 0.010


def test_drafting_for_a_few_shows_that_it_is_fast_again_for_all() -> None:
    cost = StepCost(PROFILE)
    for slower in (1.0, 50.0):
        for _ in range(FEW):
            cost.observe_drafting(2, 0.002 * slower)
            cost.observe_drafting(16, 0.010 * slower)
    assert cost.draft_s(16) == pytest.approx(0.5)
    for _ in range(FEW):
        cost.observe_drafting(2, 0.002)
    assert cost.draft_s(16) == pytest.approx(0.010)


def test_catching_up_is_what_it_takes_beside_drafting() -> None:
    cost = StepCost(PROFILE)
    assert cost.catch_up_s(300) == 0.0
    cost.observe_drafting(1, 0.002)
    cost.observe_catching_up(1, 300, 0.012)
    assert cost.catch_up_s(300) == pytest.approx(0.010)
    assert cost.catch_up_s(3000) == pytest.approx(0.100)  # in ten steps


def test_medians_forget_what_is_older_than_their_window() -> None:
    table = MedianTable(1.0, window=5)
    for value in (9.0, 9.0, 9.0, 2.0, 2.0, 2.0, 2.0, 2.0):
        table.observe(3, value)
    assert float(table(3)) == 2.0
    assert table([1, 3, 500]) == pytest.approx([2.0, 2.0, 2.0])
