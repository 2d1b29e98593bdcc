"""Mode latency: some users first, at most so much of everybody's throughput for it."""

from __future__ import annotations

import numpy as np
import pytest
from chains import chain
from hypothesis import given
from hypothesis import strategies as st
from world import MAX_NODES, ROOFLINE, World

from serving.spec.aim import Aim
from serving.spec.controller import AutoController, best_prefix
from serving.spec.cost import StepCost, StepLoad

# Where auto decodes plainly: 32 rows are twice as dear as one.
BATCH, URGENT = 32, 4


def aiming(floor: float, weight: float = 0.1) -> World:
    world = World(draft_s=0.001)
    world.controller.aim_at(Aim((1.0, weight), floor))
    return world


def test_urgent_sequences_are_drafted_for_where_nobody_else_is() -> None:
    urgent_s, everybody_s = World(draft_s=0.001).rates(BATCH, URGENT)
    world = aiming(floor=0.7)
    faster_s, remaining_s = world.rates(BATCH, URGENT)
    assert faster_s > 1.3 * urgent_s
    assert 0.7 * everybody_s < remaining_s < everybody_s
    plan, choice = world.step(BATCH, urgent=URGENT)
    assert plan.sequences == URGENT
    assert not any(choice.sizes[URGENT:])


@pytest.mark.parametrize("floor", [0.75, 0.85, 0.95])
def test_what_is_left_for_all_is_the_floor_or_more(floor: float) -> None:
    _, everybody_s = World(draft_s=0.001).rates(BATCH, URGENT, steps=1000)
    _, remaining_s = aiming(floor).rates(BATCH, URGENT, steps=1000)
    assert remaining_s > 0.99 * floor * everybody_s  # what noise may take


def test_a_floor_of_one_leaves_but_probes() -> None:
    world = aiming(floor=1.0)
    plans = [world.step(BATCH, urgent=URGENT)[0] for _ in range(100)]
    assert sum(plan.sequences > 0 for plan in plans[20:]) < 10


@pytest.mark.parametrize("urgent", [0, 8])
def test_where_all_are_alike_it_is_mode_auto(urgent: int) -> None:
    auto, latency = World(), aiming(floor=0.5)
    latency.draft_s = auto.draft_s
    for _ in range(80):
        assert auto.step(8, urgent=urgent) == latency.step(8, urgent=urgent)


def test_few_sequences_are_all_drafted_for() -> None:
    """Where that is the fastest for each of them."""
    world = aiming(floor=0.8)
    plans = [world.step(4, urgent=1)[0] for _ in range(60)]
    assert all(plan.sequences == 4 for plan in plans[20:])


def test_all_of_priority_1_are_served_as_all_of_priority_0() -> None:
    plans = []
    for priority in (0, 1):
        controller = AutoController(StepCost(ROOFLINE), MAX_NODES, seed=1).aim_at(Aim((1.0, 0.0), 0.8))
        load = StepLoad(4, kv_tokens=100, priorities=(priority,) * 4, urgent=4 * (1 - priority))
        plan = controller.plan(load)
        plans.append((plan, controller.choose([chain(0.6, 8, i) for i in range(4)], load, plan)))
    assert plans[0] == plans[1]
    assert plans[0][0].sequences == 4


def test_what_drafters_missed_of_others_is_not_in_the_way() -> None:
    load = StepLoad(4, priorities=(1, 0, 1, 0), missed=(900, 3, 800, 2))
    assert load.missed_tokens(urgent=True) == 5
    assert load.missed_tokens(urgent=False) == 1705


def test_nobody_is_drafted_for_in_the_place_of_an_urgent_one_that_wants_no_trees() -> None:
    aim, load = Aim((1.0, 0.1), 0.7), StepLoad(8, priorities=(0,) * 2 + (1,) * 6)
    assert [group.sequences for group in aim.groups(load)] == [8]
    groups = aim.groups(load._replace(urgent=1))
    assert [(group.sequences, group.urgent) for group in groups] == [(1, True), (8, False)]


def test_a_prompt_chunk_does_not_raise_m_for_others() -> None:
    """Beside one no step is as fast as those that only decode, which the floor is of."""
    drafted = [chain(0.5, 8, seq_id) for seq_id in range(8)]
    load = StepLoad(8, priorities=(0,) * 2 + (1,) * 6, urgent=2, missed=(0,) * 8)
    sizes = []
    for prefill in (0, 64, 480):
        controller = AutoController(StepCost(ROOFLINE), MAX_NODES, explore=0.0).aim_at(Aim((1.0, 0.1), 0.8))
        plan = controller.plan(load)
        beside = load._replace(prefill_tokens=prefill)
        sizes.append(sum(controller.choose(drafted, beside, plan).sizes[2:]))
    assert sizes[0] >= sizes[1] >= sizes[2]


def test_the_urgent_never_wait_while_others_go_on() -> None:
    """Neither in halves nor for prompts: a round that rests would be theirs."""
    world = aiming(floor=0.5)
    world.draft_s = 0.012
    for _ in range(40):
        world.step(4)
    mixed = StepLoad(4, kv_tokens=400, priorities=(0, 1, 1, 1), urgent=1)
    alike = mixed._replace(priorities=(0,) * 4, urgent=4)
    assert world.controller.prefill_first(alike._replace(prefill_tokens=64))
    assert not world.controller.prefill_first(mixed._replace(prefill_tokens=64))
    assert not world.controller.halves(mixed)


@given(
    st.lists(st.tuples(st.floats(0.05, 0.95), st.integers(0, 5), st.integers(0, 1)), min_size=2, max_size=5)
)
def test_no_node_left_out_weighs_more_than_a_verified_one(
    drafted: list[tuple[float, int, int]],
) -> None:
    aim = Aim((1.0, 0.25), floor=0.0)
    controller = AutoController(StepCost(ROOFLINE), MAX_NODES, explore=0.0).aim_at(aim)
    trees = [chain(round(confidence, 2), nodes, i) for i, (confidence, nodes, _) in enumerate(drafted)]
    load = StepLoad(len(trees), priorities=tuple(priority for _, _, priority in drafted))
    sizes = controller.choose(trees, load, controller.plan(load)).sizes
    weights = aim.of_each(load)
    values = [w * tree.path_values for w, tree in zip(weights, trees, strict=True)]
    chosen = [value for each, size in zip(values, sizes, strict=True) for value in each[:size]]
    left = [value for each, size in zip(values, sizes, strict=True) for value in each[size:]]
    assert min(chosen, default=np.inf) >= max(left, default=0.0)


@given(st.lists(st.floats(0.0, 1.0), max_size=12), st.data(), st.floats(0.0, 500.0))
def test_only_what_is_allowed_is_chosen(values: list[float], data: st.DataObject, rate: float) -> None:
    falling = np.array(sorted(values, reverse=True))
    seconds = np.array([data.draw(st.floats(0.0, 1.0)) for _ in range(len(values) + 1)])
    allowed = np.array([data.draw(st.booleans()) for _ in seconds])
    allowed[data.draw(st.integers(0, len(values)))] = True
    worth = [falling[:m].sum() - rate * seconds[m] for m in range(len(values) + 1)]
    best = best_prefix(falling, seconds, rate, allowed)
    assert allowed[best]
    assert worth[best] == pytest.approx(max(np.array(worth)[allowed]))
