"""The choice of m: the same optimum as brute force, settling when load or traffic changes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from chains import chain
from hypothesis import given
from hypothesis import strategies as st
from world import MAX_NODES, ROOFLINE, World

from serving.spec.controller import (
    BEYOND,
    AutoController,
    StepOutcome,
    best_prefix,
    slope_after,
)
from serving.spec.cost import ForwardProfile, StepCost, StepLoad
from serving.spec.schedule import ScheduledController
from serving.spec.tree import ROOT, DraftTree


@st.composite
def trees(draw: st.DrawFn, most: int = 4) -> DraftTree:
    nodes = draw(st.integers(0, most))
    parents = [draw(st.integers(ROOT, i - 1)) for i in range(nodes)]
    logs = [draw(st.floats(-3.0, 0.0, width=32)) for _ in range(nodes)]
    return DraftTree.build(0, 10, range(nodes), parents, logs)


@given(st.lists(st.floats(0.0, 1.0), max_size=12), st.data(), st.floats(0.0, 500.0))
def test_the_best_prefix_is_the_best(values: list[float], data: st.DataObject, rate: float) -> None:
    falling = np.array(sorted(values, reverse=True))
    seconds = np.array([data.draw(st.floats(0.0, 1.0)) for _ in range(len(values) + 1)])
    best = best_prefix(falling, seconds, rate)
    worth = [falling[:m].sum() - rate * seconds[m] for m in range(len(values) + 1)]
    assert worth[best] == pytest.approx(max(worth))


@given(st.lists(trees(), min_size=1, max_size=3))
def test_no_connected_set_is_worth_more(drafted: list[DraftTree]) -> None:
    controller = AutoController(StepCost(ROOFLINE), MAX_NODES, explore=0.0)
    load = StepLoad(len(drafted), kv_tokens=100)
    choice = controller.choose(drafted, load, controller.plan(load))
    nodes = [(tree, i) for tree in range(len(drafted)) for i in range(len(drafted[tree]))]
    # What the controller took the rate to be: what just one more node was not worth.
    cost = StepCost(ROOFLINE)
    every = sorted((float(drafted[t].path_values[i]) for t, i in nodes), reverse=True)
    seconds = cost.step_s(load, load.sequences + np.arange(len(every) + 1 + BEYOND))
    chosen = sum(choice.sizes)
    slope = slope_after(seconds, chosen)
    if not slope:
        return
    rate = controller.price / slope

    def worth(members: tuple[tuple[int, int], ...]) -> float:
        value = sum(float(drafted[t].path_values[i]) for t, i in members)
        return value - rate * float(seconds[len(members)])

    prefixes = tuple((t, i) for t in range(len(drafted)) for i in range(choice.sizes[t]))
    for size in range(min(len(nodes), 6) + 1):
        for members in itertools.combinations(nodes, size):
            connected = all(
                drafted[t].parents[i] == ROOT or (t, int(drafted[t].parents[i])) in members
                for t, i in members
            )
            if connected:
                assert worth(members) <= worth(prefixes) + 1e-9


@given(st.lists(trees(8), min_size=1, max_size=6), st.integers(0, 400))
def test_sizes_are_within_their_trees(drafted: list[DraftTree], prefill: int) -> None:
    controller = AutoController(StepCost(ROOFLINE), MAX_NODES, explore=0.5)
    load = StepLoad(len(drafted), prefill, 100)
    choice = controller.choose(drafted, load, controller.plan(load))
    for tree, size, explored in zip(drafted, choice.sizes, choice.explored, strict=True):
        assert 0 <= explored <= size <= len(tree)


def test_what_is_only_explored_weighs_by_how_rarely_it_is() -> None:
    drafted = [chain(0.6, 8, seq_id) for seq_id in range(40)]
    controller = AutoController(StepCost(ROOFLINE), MAX_NODES, explore=0.25)
    load = StepLoad(40, 0, 100)
    choice = controller.choose(drafted, load, controller.plan(load))
    assert choice.weights is not None
    each = np.split(choice.weights, np.cumsum(choice.sizes)[:-1])
    for weights, size, explored in zip(each, choice.sizes, choice.explored, strict=True):
        assert weights.tolist() == [1.0] * (size - explored) + [4.0] * explored
    assert sum(explored > 0 for explored in choice.explored) > 1


def test_what_is_always_verified_has_no_weights() -> None:
    controller = AutoController(StepCost(ROOFLINE), MAX_NODES, explore=0.0)
    load = StepLoad(2, 0, 100)
    drafted = [chain(0.6, 8, 0), chain(0.6, 8, 1)]
    assert controller.choose(drafted, load, controller.plan(load)).weights is None


def test_a_prompt_chunk_does_not_raise_m() -> None:
    """A node's price within the step would fall, as the step is long anyway."""
    drafted = [chain(0.6, 8, seq_id) for seq_id in range(4)]
    sizes = []
    for prefill in (0, 64, 512):
        controller = AutoController(StepCost(ROOFLINE), MAX_NODES, explore=0.0)
        plan = controller.plan(StepLoad(4))
        sizes.append(sum(controller.choose(drafted, StepLoad(4, prefill), plan).sizes))
    assert sizes[0] >= sizes[1] >= sizes[2]
    assert sizes[0] > 0


def test_the_price_is_the_slope_of_the_lower_hull() -> None:
    seconds = np.array([0.0, 1.0, 4.0, 4.5, 8.0])
    assert slope_after(seconds, 0) == 1.0
    assert slope_after(seconds, 1) == 1.75  # to 4.5, past the hump
    assert slope_after(seconds, 4) == 0.0


def test_load_makes_trees_shrink_to_nothing_and_grow_back_within_twenty_steps() -> None:
    world = World()
    alone = np.mean(world.run(1, 60)[-20:])
    assert alone > 3
    crowded = world.run(64, 60)
    assert np.mean(crowded[20:]) < 0.2
    again = world.run(1, 60)
    assert np.mean(again[20:]) == pytest.approx(alone, rel=0.2)


def test_m_does_not_flutter() -> None:
    """Between drafting and not there is at most one change in a steady load, wherever it is."""
    for sequences in (1, 4, 8, 12, 16, 24, 32, 64):
        world = World()
        world.run(sequences, 60)
        plans = [world.step(sequences)[0] for _ in range(100)]
        drafting = [plan.sequences == sequences for plan in plans]
        changes = sum(a != b for a, b in itertools.pairwise(drafting) if sequences > 2)
        assert changes <= 2, sequences


def test_hard_traffic_turns_drafting_off_and_easy_traffic_turns_it_on_again() -> None:
    world = World(draft_s=0.004)
    assert np.mean(world.run(4, 40)[-10:]) > 1
    world.confidence = 0.02
    assert np.mean(world.run(4, 60)[20:]) < 0.3
    world.confidence = 0.9
    assert np.mean(world.run(4, 200)[-20:]) > 1


def test_a_new_text_is_a_new_chance() -> None:
    """Though drafting did not pay for many before it, and was tried ever more rarely."""
    world = World(draft_s=0.004, confidence=0.02)
    world.run(1, 600)
    world.confidence, world.lengths, world.missed = 0.9, [50], [50]
    assert np.mean(world.run(1, 40)[20:]) > 2


def test_prompts_that_come_by_do_not_make_a_token_worth_more() -> None:
    """They take their time once per answer, whatever m is."""
    alone = World()
    mixed = World()
    for _ in range(200):
        alone.step(4)
        mixed.step(4)
        mixed.step(4, prefill=400)
    assert np.mean(mixed.run(4, 60)) == pytest.approx(np.mean(alone.run(4, 60)), rel=0.1)


def test_drafting_is_not_begun_for_stretches_too_short_to_pay_for_what_the_drafter_missed() -> None:
    """Load that falls for a moment, again and again: telling the drafter of 250 tokens takes 50 ms."""

    def drafted(told_s: float) -> int:
        world = World(told_s=told_s)
        plans = []
        for _ in range(30):
            world.missed = [250] + [0] * 7  # others' answers
            plans += [world.step(8)[0] for _ in range(4)]
            world.run(64, 12)
        return sum(plan.sequences == 8 for plan in plans[60:])

    assert drafted(told_s=0.0) > 40
    assert drafted(told_s=0.0002) < 15


def test_drafting_that_was_slow_for_a_while_is_found_to_be_fast_again() -> None:
    world = World(told_s=0.0001)
    world.run(4, 40)
    world.draft_s = 0.1  # a busy neighbour
    world.run(4, 200)
    world.draft_s = 0.002
    assert np.mean(world.run(4, 2000)[-20:]) > 1


def test_a_drafter_that_is_gone_is_asked_ever_more_rarely_and_found_again() -> None:
    world = World()
    world.run(4, 30)
    world.drafter_lives = False
    world.run(4, 40)
    asked = sum(world.step(4)[0].sequences > 0 for _ in range(600))
    assert 1 <= asked < 20
    world.drafter_lives = True
    assert np.mean(world.run(4, 700)[-20:]) > 1


def test_a_schedule_is_by_sequences_and_gaps_go_to_the_range_below() -> None:
    controller = ScheduledController([(1, 4, 5), (9, 16, 2), (33, 64, 0)], price=0.05)
    ms = {n: controller.plan(StepLoad(n)).nodes for n in (1, 4, 6, 9, 16, 20, 33, 100)}
    assert ms == {1: 5, 4: 5, 6: 5, 9: 2, 16: 2, 20: 2, 33: 0, 100: 0}
    assert controller.plan(StepLoad(40)).sequences == 0, "the drafter is not even asked"


# ---- overlap: trees drafted while others are verified ----


# Every forward costs 10 ms, and 0.3 ms for each row.
LINE = ForwardProfile((1, 1001), (0.0103, 0.3103), (0.0103, 0.3103))


def settled(draft_s: float) -> AutoController:
    """Four sequences, easily drafted for."""
    controller = AutoController(StepCost(LINE), MAX_NODES, seed=1)
    World(controller, draft_s=draft_s, confidence=0.95, machine=LINE).run(4, 40)
    return controller


FOUR, TWO = StepLoad(4, kv_tokens=400), StepLoad(2, kv_tokens=200, overlapped=True)


def test_halves_take_turns_where_drafting_takes_longer_than_a_forwards_fixed_cost() -> None:
    """Two halves cost that once more, 10 ms here; what they save is the time of drafting."""
    assert not settled(draft_s=0.002).halves(FOUR)
    assert settled(draft_s=0.012).halves(FOUR)
    assert not settled(draft_s=0.012).halves(StepLoad(1))


def test_halves_that_slow_each_other_down_are_given_up_and_tried_again() -> None:
    """A drafter on the same cores: what it drafts is hidden, and the forward takes longer."""
    controller = settled(draft_s=0.012)

    def halves(slower: float) -> bool:
        if not controller.halves(FOUR):
            return False
        forward_s = slower * float(LINE.seconds(TWO, 12))
        controller.plan(TWO)
        controller.observe(StepOutcome(TWO, 12, 8, forward_s, forward_s, 0.0, 0.0, 2, hidden=True))
        return True

    assert sum(halves(slower=1.5) for _ in range(400)) < 130
    assert any(halves(slower=1.0) for _ in range(600))
    for _ in range(40):
        halves(slower=1.0)
    assert all(halves(slower=1.0) for _ in range(50))


def test_prompts_are_read_first_where_drafting_takes_longer_than_a_forwards_fixed_cost() -> None:
    load = FOUR._replace(prefill_tokens=64)
    assert not settled(draft_s=0.002).prefill_first(load)
    assert settled(draft_s=0.012).prefill_first(load)
