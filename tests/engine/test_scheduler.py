"""Scheduler: its plans are carried out on paper, with a cache that shows every block that was mixed up.

The paper cache holds, for each slot, which token of which sequence was written there last. Rejected nodes
leave their scribbles behind, as on a device; whatever is read must be committed tokens and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from serving.engine.blocks import BlockManager
from serving.engine.scheduler import Decode, Prefill, Scheduler, StepPlan, share_evenly
from serving.engine.sequence import Sequence, Status
from serving.errors import ConfigError
from serving.types import GenerationRequest, SamplingParams

SCRIBBLE = -1
Choose = Callable[[Sequence], int]


def plain(seq: Sequence) -> int:
    return 0


class Paper:
    """What an engine does with plans. The token at position p of sequence i is `1000 * i + p`, or where it
    repeats the text of another, `1000 * text + p`."""

    def __init__(self, num_blocks: int, block_size: int = 4, **limits: int) -> None:
        self.blocks = BlockManager(num_blocks, block_size)
        limits = {
            "max_num_seqs": 8,
            "max_num_batched_tokens": 64,
            "max_model_len": num_blocks * block_size,
        } | limits
        self.scheduler = Scheduler(self.blocks, **limits)
        self.cache = [SCRIBBLE] * self.blocks.capacity_tokens
        self.all: list[Sequence] = []

    def add(
        self,
        prompt: int,
        max_tokens: int = 100,
        output: int = 0,
        text: int | None = None,
        priority: int = 0,
    ) -> Sequence:
        seq_id = len(self.all)
        start = 1000 * (seq_id if text is None else text)
        ids = tuple(range(start, start + prompt + output))
        request = GenerationRequest(
            f"r{seq_id}",
            ids[:prompt],
            SamplingParams(max_tokens),
            output_ids=ids[prompt:],
            priority=priority,
        )
        seq = Sequence.create(seq_id, request)
        self.all.append(seq)
        self.scheduler.add(seq)
        return seq

    def step(
        self,
        cap: Choose = plain,
        accept: Callable[[Decode], int] = lambda decode: 0,
        resting: frozenset[int] = frozenset(),
    ) -> StepPlan:
        plan = self.scheduler.schedule(cap, resting)
        self.carry_out(plan, accept, resting)
        return plan

    def carry_out(
        self,
        plan: StepPlan,
        accept: Callable[[Decode], int] = lambda decode: 0,
        resting: frozenset[int] = frozenset(),
    ) -> None:
        self.check(plan, resting)
        self.forward(plan)
        for chunk in plan.prefills:
            chunk.seq.num_computed += chunk.length
            self.commit(chunk.seq, 1 if chunk.last else 0)
        for decode in plan.decodes:
            accepted = accept(decode)
            decode.seq.stats.record(decode.max_draft, accepted, accepted + 1, offered=accepted)
            self.commit(decode.seq, accepted + 1)
            self.compact(decode.seq, accepted)
            decode.seq.num_computed += 1 + accepted
        for seq in [*(each.seq for each in plan.prefills), *(each.seq for each in plan.decodes)]:
            if self.scheduler.room(seq) == 0:
                self.scheduler.finish(seq)
            else:
                self.scheduler.committed(seq)
        self.check_consistent()

    def run(self, cap: Choose = plain, accept: Callable[[Decode], int] = lambda decode: 0) -> int:
        """Steps until there is no work."""
        steps = 0
        while self.scheduler.has_work:
            assert steps < 10_000
            self.step(cap, accept)
            steps += 1
        return steps

    def forward(self, plan: StepPlan) -> None:
        for decode in plan.decodes:
            self.write(decode.seq, decode.seq.num_computed, [decode.seq.root])
            self.write(decode.seq, decode.seq.num_computed + 1, [SCRIBBLE] * decode.max_draft)
        for seq, start, length in plan.prefills:
            self.write(seq, start, seq.token_ids[start : start + length])

    def commit(self, seq: Sequence, count: int) -> None:
        seq.append(range(seq.root + 1, seq.root + 1 + count))

    def compact(self, seq: Sequence, accepted: int) -> None:
        start = seq.num_computed + 1
        self.write(seq, start, seq.token_ids[start : start + accepted])

    def write(self, seq: Sequence, start: int, tokens: list[int]) -> None:
        for position, token in enumerate(tokens, start):
            self.cache[self.slot(seq, position)] = token

    def slot(self, seq: Sequence, position: int) -> int:
        size = self.blocks.block_size
        return seq.block_table[position // size] * size + position % size

    def check(self, plan: StepPlan, resting: frozenset[int]) -> None:
        """What a plan promises, whatever the scheduler's policy."""
        planned = [each.seq for each in (*plan.decodes, *plan.prefills)]
        assert len({id(seq) for seq in (*planned, *plan.preempted)}) == len(planned) + len(plan.preempted)
        assert all(seq.status is Status.RUNNING for seq in planned)
        assert all(seq.num_computed == seq.num_drafted == 0 for seq in plan.preempted)
        assert plan.num_rows <= self.scheduler.max_num_batched_tokens
        for seq, max_draft in plan.decodes:
            assert seq.is_decoding
            assert 0 <= max_draft <= self.scheduler.room(seq) - 1
            assert self.covered(seq) >= seq.num_computed + 1 + max_draft
        for seq, start, length in plan.prefills:
            assert not seq.is_decoding
            assert start == seq.num_computed
            assert 1 <= length <= seq.num_uncomputed
            assert self.covered(seq) >= start + length
        resting_ones = [seq for seq in self.all if seq.seq_id in resting and seq.is_decoding]
        assert not any(seq in planned for seq in resting_ones)
        self.check_nobody_starves(planned + resting_ones)

    def check_nobody_starves(self, planned: list[Sequence]) -> None:
        """Every decode has its row, and the first of the best priority advances, unless it rests."""
        running = [seq for seq in self.scheduler.sequences if seq.status is Status.RUNNING]
        assert all(seq in planned for seq in running if seq.is_decoding)
        assert min(running or self.scheduler.sequences, key=lambda seq: seq.request.priority) in planned

    def covered(self, seq: Sequence) -> int:
        return len(seq.block_table) * self.blocks.block_size

    def check_consistent(self) -> None:
        self.scheduler.check_integrity()
        for priority in (0, 1):
            order = [s.seq_id for s in self.scheduler.sequences if s.request.priority == priority]
            assert order == sorted(order)
        for seq in self.scheduler.sequences:
            assert len(seq.token_ids) < self.scheduler.max_model_len
            cached = [self.cache[self.slot(seq, position)] for position in range(seq.num_computed)]
            assert cached == seq.token_ids[: seq.num_computed]

    def check_idle(self) -> None:
        assert not self.scheduler.has_work
        assert self.blocks.num_free == self.blocks.num_blocks
        assert all(seq.finished and not seq.block_table for seq in self.all)


def eight(seq: Sequence) -> int:
    return 8


def accept_all(decode: Decode) -> int:
    return decode.max_draft


def drafts(plan: StepPlan) -> list[int]:
    return [decode.max_draft for decode in plan.decodes]


def chunks(plan: StepPlan) -> list[tuple[int, int, int]]:
    return [(seq.seq_id, start, length) for seq, start, length in plan.prefills]


# The budget


def test_more_sequences_than_rows_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"max_num_seqs \(65\)"):
        Paper(16, max_num_seqs=65, max_num_batched_tokens=64)


def test_context_beyond_the_cache_is_the_engines_bug() -> None:
    with pytest.raises(AssertionError):
        Paper(16, max_model_len=65)


def test_a_prompt_is_one_chunk_when_it_fits() -> None:
    paper = Paper(64)
    paper.add(prompt=64)
    assert chunks(paper.step()) == [(0, 0, 64)]


def test_only_the_chunk_that_ends_at_the_last_token_is_sampled() -> None:
    paper = Paper(64)
    seq = paper.add(prompt=100)
    assert not Prefill(seq, 0, 64).last
    assert not Prefill(seq, 64, 35).last
    assert Prefill(seq, 64, 36).last


def test_a_long_prompt_is_chunked_and_the_next_fills_the_last_step() -> None:
    paper = Paper(64)
    paper.add(prompt=100)
    paper.add(prompt=40)
    assert chunks(paper.step()) == [(0, 0, 64)]
    assert chunks(paper.step()) == [(0, 64, 36), (1, 0, 28)]
    plan = paper.step()
    assert (drafts(plan), chunks(plan)) == ([0], [(1, 28, 12)])


def test_prompt_of_one_token_decodes_at_once() -> None:
    paper = Paper(16)
    paper.add(prompt=1)
    plan = paper.step(eight, accept_all)
    assert (drafts(plan), chunks(plan)) == ([8], [])


def test_replayed_output_is_computed_with_the_prompt() -> None:
    paper = Paper(16)
    seq = paper.add(prompt=10, output=5, max_tokens=8)
    assert chunks(paper.step()) == [(0, 0, 15)]
    assert seq.remaining == 2


def test_short_budget_is_shared_evenly_by_trees() -> None:
    paper = Paper(64, max_num_batched_tokens=16)
    for _ in range(4):
        paper.add(prompt=4)
    paper.step()
    assert drafts(paper.step(eight)) == [3, 3, 3, 3]
    assert drafts(paper.step(lambda seq: 0 if seq.seq_id == 0 else 8)) == [0, 4, 4, 4]


def test_trees_leave_a_quarter_to_prefill() -> None:
    paper = Paper(64, max_num_batched_tokens=16)
    for _ in range(3):
        paper.add(prompt=5)
    paper.step()
    paper.add(prompt=30)
    plan = paper.step(eight)
    assert (drafts(plan), chunks(plan)) == ([3, 3, 3], [(3, 0, 4)])


def test_trees_leave_no_more_than_prefill_needs() -> None:
    paper = Paper(64, max_num_batched_tokens=16)
    for _ in range(3):
        paper.add(prompt=5)
    paper.step()
    paper.add(prompt=2)
    plan = paper.step(eight)
    assert (drafts(plan), chunks(plan)) == ([3, 4, 4], [(3, 0, 2)])


def test_trees_do_not_give_way_to_a_prompt_that_cannot_start() -> None:
    paper = Paper(64, max_num_batched_tokens=16, max_num_seqs=2)
    for _ in range(2):
        paper.add(prompt=5)
    paper.step()
    paper.add(prompt=30)
    plan = paper.step(eight)
    assert (drafts(plan), chunks(plan)) == ([7, 7], [])


def test_prefill_takes_the_rows_that_trees_do_not_want() -> None:
    paper = Paper(64, max_num_batched_tokens=16)
    paper.add(prompt=5)
    paper.step()
    paper.add(prompt=30)
    plan = paper.step(lambda seq: 2)
    assert (drafts(plan), chunks(plan)) == ([2], [(1, 0, 13)])


def test_a_full_house_of_roots_leaves_one_row_to_the_oldest_prefill() -> None:
    paper = Paper(64, max_num_batched_tokens=8, max_num_seqs=8)
    for prompt in (*[1] * 7, 9):
        paper.add(prompt)
    plans = [paper.step(eight) for _ in range(3)]
    assert [chunks(plan) for plan in plans] == [[(7, start, 1)] for start in range(3)]
    assert [drafts(plan) for plan in plans] == [[0] * 7] * 3


def test_trees_leave_a_row_to_prefill_in_the_smallest_budget() -> None:
    paper = Paper(64, max_num_batched_tokens=3, max_num_seqs=2)
    paper.add(prompt=9)
    young = paper.add(prompt=1)
    for _ in range(3):
        paper.step()
    paper.scheduler.abort("r0")
    paper.add(prompt=9)
    plan = paper.step(eight)
    assert young.is_decoding
    assert (drafts(plan), chunks(plan)) == ([1], [(2, 0, 1)])


def test_nobody_is_admitted_who_would_find_no_row() -> None:
    paper = Paper(64)
    for _ in range(3):
        paper.add(prompt=40)
    assert chunks(paper.step()) == [(0, 0, 40), (1, 0, 24)]
    assert (paper.scheduler.num_running, paper.scheduler.num_waiting) == (2, 1)


@given(st.lists(st.integers(0, 12), max_size=8), st.integers(0, 60))
def test_shares_are_max_min_fair(wishes: list[int], rows: int) -> None:
    shares = share_evenly(wishes, rows)
    assert sum(shares) == min(rows, sum(wishes))
    for share, wish in zip(shares, wishes, strict=True):
        assert 0 <= share <= wish
        assert share == wish or share >= max(shares) - 1


# Limits of a sequence


@pytest.mark.parametrize("cap", [0, 1, 3, 8])
def test_generation_ends_exactly_at_the_context_limit(cap: int) -> None:
    """S28."""
    paper = Paper(16, max_model_len=20)
    seq = paper.add(prompt=10, max_tokens=1000)
    paper.run(lambda _: cap, accept_all)
    assert len(seq.token_ids) == 20
    paper.check_idle()


@pytest.mark.parametrize("cap", [0, 1, 3, 8])
def test_generation_ends_exactly_at_max_tokens(cap: int) -> None:
    paper = Paper(16)
    seq = paper.add(prompt=10, max_tokens=7)
    paper.run(lambda _: cap, accept_all)
    assert (seq.num_output, seq.remaining) == (7, 0)
    paper.check_idle()


def test_no_tree_where_only_one_token_may_follow() -> None:
    paper = Paper(16)
    paper.add(prompt=10, max_tokens=2)
    paper.step()
    assert drafts(paper.step(eight)) == [0]


def test_statistics_when_nothing_is_drafted() -> None:
    """S24."""
    paper = Paper(16)
    seq = paper.add(prompt=10, max_tokens=7)
    paper.run()
    assert (seq.stats.steps, seq.stats.committed_tokens) == (6, 6)
    assert (seq.stats.draft_tokens, seq.stats.accepted_tokens, seq.stats.tau) == (0, 0, 1.0)


def test_a_sequence_without_room_is_refused() -> None:
    paper = Paper(16, max_model_len=20)
    with pytest.raises(AssertionError):
        paper.add(prompt=20)


# Blocks


def test_same_prefix_in_the_same_step_is_computed_twice_and_shared_afterwards() -> None:
    """S21."""
    paper = Paper(16)
    twins = [paper.add(9, max_tokens=5, text=0) for _ in range(2)]
    plan = paper.scheduler.schedule(plain)
    assert plan.prefills == (Prefill(twins[0], 0, 9), Prefill(twins[1], 0, 9))
    assert not set(twins[0].block_table) & set(twins[1].block_table)
    paper.scheduler.check_integrity()
    paper.carry_out(plan)
    assert twins[0].block_table[:2] == twins[1].block_table[:2]
    assert twins[0].block_table[2] != twins[1].block_table[2]
    assert paper.blocks.num_free == 16 - 4
    paper.run(eight)
    assert twins[0].token_ids == twins[1].token_ids
    paper.check_idle()


def test_rejected_nodes_give_their_blocks_back() -> None:
    paper = Paper(16)
    seq = paper.add(prompt=7)
    paper.step()
    plan = paper.scheduler.schedule(eight)
    assert (drafts(plan), len(seq.block_table)) == ([8], 4)
    seq.append([7])
    seq.num_computed += 1
    paper.scheduler.committed(seq)
    assert len(seq.block_table) == 3
    paper.scheduler.check_integrity()


def test_a_partly_computed_prompt_keeps_its_blocks() -> None:
    paper = Paper(64)
    seq = paper.add(prompt=100)
    paper.step()
    assert (seq.num_computed, len(seq.block_table)) == (64, 25)


def test_trees_shrink_to_the_free_blocks_and_evict_nobody() -> None:
    paper = Paper(5)
    paper.add(prompt=6)
    paper.add(prompt=5)
    paper.step()
    plan = paper.step(eight)
    assert drafts(plan) == [5, 2]
    assert not plan.preempted


@pytest.mark.parametrize(("prompt", "status"), [(8, Status.RUNNING), (9, Status.WAITING)])
def test_a_newcomer_leaves_a_block_to_each_that_runs(prompt: int, status: Status) -> None:
    paper = Paper(6)
    for _ in range(2):
        paper.add(prompt=3)
    newcomer = paper.add(prompt)
    paper.scheduler.schedule(plain)
    assert newcomer.status is status


@pytest.mark.parametrize(("prompt", "status"), [(296, Status.RUNNING), (297, Status.WAITING)])
def test_a_newcomer_leaves_one_block_in_a_hundred(prompt: int, status: Status) -> None:
    paper = Paper(400, block_size=1, max_num_batched_tokens=512)
    paper.add(prompt=100)
    newcomer = paper.add(prompt)
    paper.scheduler.schedule(plain)
    assert newcomer.status is status


def test_a_short_prompt_does_not_overtake_a_long_one() -> None:
    paper = Paper(8)
    paper.add(prompt=20, max_tokens=4)
    long, short = paper.add(prompt=16), paper.add(prompt=2)
    paper.step()
    assert (long.status, short.status) == (Status.WAITING, Status.WAITING)
    while long.status is Status.WAITING:
        paper.step()
    assert short.num_computed <= 2


def test_prompt_that_fills_the_cache_starts_when_alone() -> None:
    paper = Paper(200, block_size=1, max_num_batched_tokens=256)
    seq = paper.add(prompt=199)
    assert chunks(paper.step()) == [(0, 0, 199)]
    assert seq.finished
    paper.check_idle()


# Prefixes


def test_a_second_request_computes_only_what_is_not_cached() -> None:
    paper = Paper(64)
    paper.add(prompt=40, max_tokens=1)
    paper.run()
    second = paper.add(prompt=50, max_tokens=1, text=0)
    assert chunks(paper.step()) == [(1, 40, 10)]
    assert second.num_cached == second.cached_prompt == 40
    assert paper.scheduler.prefixes.take_counts() == (90, 40)
    assert paper.scheduler.prefixes.take_counts() == (0, 0)


@pytest.mark.parametrize(("prompt", "cached"), [(3, 0), (4, 0), (5, 4), (8, 4), (9, 8), (16, 12), (17, 16)])
def test_full_blocks_are_reused_and_the_last_token_is_always_computed(prompt: int, cached: int) -> None:
    paper = Paper(16)
    for _ in range(2):
        seq = paper.add(prompt, max_tokens=1, text=0)
        paper.run()
    assert seq.num_cached == cached


def test_what_was_said_is_reused_when_the_conversation_goes_on() -> None:
    """With trees that are partly rejected: only what was committed is there."""
    paper = Paper(64)
    paper.add(prompt=10, max_tokens=21)
    paper.run(eight, lambda decode: decode.max_draft // 2)
    second = paper.add(prompt=40, text=0)
    paper.step()
    assert second.num_cached == 28, "of 31 tokens the last was never computed"


def test_a_prompt_that_is_being_read_can_be_joined() -> None:
    paper = Paper(64, max_num_batched_tokens=20)
    paper.add(prompt=38)
    paper.add(prompt=37, text=0)
    assert chunks(paper.step()) == [(0, 0, 20)]
    assert chunks(paper.step()) == [(0, 20, 18), (1, 20, 2)]


def test_running_sequences_share_and_the_first_to_end_takes_nothing_from_the_other() -> None:
    paper = Paper(64)
    first = paper.add(prompt=9, max_tokens=3)
    paper.step()
    second = paper.add(prompt=10, max_tokens=30, text=0)
    paper.step()
    assert first.block_table[:2] == second.block_table[:2]
    assert paper.blocks.num_free == 64 - 4
    paper.run(eight, accept_all)
    paper.check_idle()


def test_shared_blocks_let_in_more_requests_than_memory_has_room_for() -> None:
    paper = Paper(12)
    paper.add(prompt=33, max_tokens=20)
    paper.step()
    others = [paper.add(prompt=34, max_tokens=2, text=text) for text in (0, 7)]
    paper.step()
    assert [seq.status for seq in others] == [Status.RUNNING, Status.WAITING]


def test_a_preempted_sequence_finds_what_was_not_taken() -> None:
    paper, _, young, _ = crowd()
    while young not in paper.step().preempted:
        pass
    paper.run()
    assert young.num_cached == 0, "its own work is no hit"
    assert paper.scheduler.prefixes.take_counts() == (9, 0)


def test_old_prefixes_give_way_when_blocks_are_needed() -> None:
    paper = Paper(8)
    for text in (0, 1, 2):
        paper.add(prompt=13, max_tokens=1, text=text)
        paper.run()
    found = [paper.add(prompt=13, max_tokens=1, text=text) for text in (2, 0)]
    paper.run()
    assert [seq.num_cached for seq in found] == [12, 4], "the end of the oldest went first"


def test_tokens_of_a_failed_sequence_are_not_reused() -> None:
    paper = Paper(16)
    sick, well = paper.add(prompt=9), paper.add(prompt=9, max_tokens=30)
    paper.step()
    paper.scheduler.finish(sick, failed=True)
    again = [paper.add(prompt=9, max_tokens=1, text=text) for text in (0, 1)]
    paper.step()
    assert [seq.num_cached for seq in again] == [0, 8]
    paper.run()
    assert well.finished
    paper.check_idle()


def test_without_the_cache_everything_is_computed() -> None:
    paper = Paper(16, enable_prefix_caching=False)
    for seq_id in range(2):
        paper.add(prompt=9, max_tokens=1, text=0)
        assert chunks(paper.step()) == [(seq_id, 0, 9)]
    assert paper.scheduler.prefixes.take_counts() == (0, 0)
    assert paper.blocks.find(paper.all[1].block_keys) == []


# Preemption


def crowd() -> tuple[Paper, Sequence, Sequence, Sequence]:
    """Two that run and together outgrow the cache of 4 x 4 slots, and one that waits."""
    paper = Paper(4)
    old, young = paper.add(prompt=5, max_tokens=8), paper.add(prompt=3, max_tokens=9)
    return paper, old, young, paper.add(prompt=1, max_tokens=2)


def test_the_youngest_gives_way_and_is_recomputed_with_its_output() -> None:
    paper, old, young, waiting = crowd()
    for _ in range(4):
        assert paper.step().preempted == ()
    young.num_drafted = 5
    plan = paper.step(eight)
    assert plan.preempted == (young,)
    assert [each.seq for each in plan.decodes] == [old]
    assert (young.num_computed, young.num_drafted, young.block_table) == (0, 0, [])
    assert list(paper.scheduler.sequences) == [old, young, waiting]
    assert (young.num_output, paper.scheduler.num_running) == (4, 1)

    while young.status is Status.WAITING:
        plan = paper.step()
    assert old.finished
    assert chunks(plan)[0] == (1, 4, 3), "its first block was still there"
    paper.run()
    assert [seq.num_output for seq in paper.all] == [8, 9, 2]
    paper.check_idle()


def test_the_youngest_gives_way_even_to_nobody_younger() -> None:
    """Its own root finds the cache full: it steps back rather than evict an older one."""
    paper = Paper(4)
    old, young = paper.add(prompt=7, max_tokens=8), paper.add(prompt=3, max_tokens=9)
    for _ in range(2):
        assert paper.step().preempted == ()
    plan = paper.step()
    assert plan.preempted == (young,)
    assert [each.seq for each in plan.decodes] == [old]
    paper.run()
    assert [seq.num_output for seq in paper.all] == [8, 9]


def test_a_partly_computed_prompt_gives_way_to_an_older_root() -> None:
    paper = Paper(8, max_num_batched_tokens=4, max_num_seqs=2)
    old, young = paper.add(prompt=3, max_tokens=20), paper.add(prompt=22)
    while not (plan := paper.step()).preempted:
        computed = young.num_computed
    assert plan.preempted == (young,)
    assert 0 < computed < 22
    assert [each.seq for each in plan.decodes] == [old]
    assert young.num_computed == 0


def test_nobody_is_admitted_in_a_step_that_preempts() -> None:
    paper, _, young, waiting = crowd()
    while young not in paper.step().preempted:
        pass
    assert waiting.num_computed == 0


def test_output_is_the_same_however_small_the_cache() -> None:
    roomy, tight = Paper(64, max_model_len=32), Paper(9, max_model_len=32)
    for paper in (roomy, tight):
        for prompt in (9, 4, 12, 1, 7):
            paper.add(prompt, max_tokens=15)
    assert tight.run(eight) > roomy.run(eight)
    assert [seq.token_ids for seq in tight.all] == [seq.token_ids for seq in roomy.all]


# Priorities


def test_a_batch_request_waits_for_those_that_came_later() -> None:
    paper = Paper(64, max_num_seqs=1)
    paper.add(prompt=3, max_tokens=1)
    paper.add(prompt=3, max_tokens=1, priority=1)
    paper.add(prompt=3, max_tokens=1)
    assert [chunks(paper.step())[0][0] for _ in range(3)] == [0, 2, 1]


@pytest.mark.parametrize(("num_blocks", "max_num_seqs"), [(64, 2), (9, 8)])
def test_batch_requests_yield_and_come_back(num_blocks: int, max_num_seqs: int) -> None:
    """The last that came, where there are too few places, or too few blocks."""
    paper = Paper(num_blocks, max_num_seqs=max_num_seqs)
    first, last = (paper.add(prompt=14, max_tokens=4, priority=1) for _ in range(2))
    paper.step()
    interactive = paper.add(prompt=14, max_tokens=2)
    plan = paper.step()
    assert plan.preempted == (last,)
    assert {first, interactive} == {each.seq for each in (*plan.decodes, *plan.prefills)}
    paper.run()
    assert last.num_output == 4


def test_a_lone_batch_request_yields() -> None:
    paper = Paper(8)
    paper.add(prompt=28, max_tokens=2, priority=1)
    paper.step()
    paper.add(prompt=28, max_tokens=1)
    assert chunks(paper.step()) == [(1, 0, 28)]
    paper.run()
    paper.check_idle()


def test_an_interactive_prompt_overtakes_one_of_a_batch() -> None:
    paper = Paper(64)
    paper.add(prompt=200, priority=1)
    paper.step()
    paper.add(prompt=40)
    assert chunks(paper.step()) == [(1, 0, 40), (0, 64, 24)]


# Abort


def test_abort_frees_a_sequence_wherever_it_is() -> None:
    """S23."""
    paper = Paper(16, max_num_batched_tokens=16)
    decoding, prefilling, waiting = paper.add(prompt=3), paper.add(prompt=40), paper.add(prompt=20)
    paper.step()
    paper.step(eight)
    assert decoding.is_decoding
    assert 0 < prefilling.num_computed < 40
    assert waiting.status is Status.WAITING
    for seq in (prefilling, waiting, decoding):
        assert paper.scheduler.abort(seq.request.request_id) is seq
        assert seq.finished
        paper.check_consistent()
    paper.check_idle()


def test_abort_of_a_preempted_sequence() -> None:
    """S23."""
    paper, old, young, _ = crowd()
    while young not in paper.step().preempted:
        pass
    assert paper.scheduler.abort("r1") is young
    paper.run()
    assert old.num_output == 8
    paper.check_idle()


def test_abort_of_an_unknown_or_finished_request_is_nothing() -> None:
    paper = Paper(8)
    paper.add(prompt=3, max_tokens=1)
    assert paper.scheduler.abort("other") is None
    paper.run()
    assert paper.scheduler.abort("r0") is None


def test_aborted_while_others_wait_for_its_blocks() -> None:
    paper = Paper(8)
    paper.add(prompt=28)
    waiting = paper.add(prompt=20)
    paper.step()
    assert waiting.status is Status.WAITING
    paper.scheduler.abort("r0")
    assert chunks(paper.step()) == [(1, 0, 20)]


class AnyTraffic(RuleBasedStateMachine):
    """Requests come, are aborted, stop or fail at random and are accepted at random, in caches that are too
    small. Many repeat another's text."""

    @initialize(
        num_blocks=st.integers(3, 14),
        block_size=st.integers(1, 4),
        max_num_seqs=st.integers(1, 8),
        spare_rows=st.integers(0, 12),
        spare_slots=st.integers(0, 4),
    )
    def start(
        self, num_blocks: int, block_size: int, max_num_seqs: int, spare_rows: int, spare_slots: int
    ) -> None:
        self.paper = Paper(
            num_blocks,
            block_size,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_seqs + spare_rows,
            max_model_len=max(2, num_blocks * block_size - spare_slots),
        )

    @rule(
        data=st.data(),
        max_tokens=st.integers(1, 30),
        text=st.sampled_from([None, 0, 0, 1]),
        priority=st.sampled_from([0, 0, 1]),
    )
    def add(self, data: st.DataObject, max_tokens: int, text: int | None, priority: int) -> None:
        known = data.draw(st.integers(1, self.paper.scheduler.max_model_len - 1), label="prompt + output")
        output = data.draw(st.integers(0, min(known, max_tokens) - 1), label="output")
        self.paper.add(known - output, max_tokens, output, text, priority)

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        if not self.paper.scheduler.has_work:
            return
        caps = data.draw(st.lists(st.integers(0, 8), min_size=1, max_size=4), label="caps")
        luck = data.draw(st.lists(st.integers(0, 8), min_size=1, max_size=4), label="luck")
        running = [seq.seq_id for seq in self.paper.scheduler.running]
        resting = data.draw(st.sets(st.sampled_from(running)) if running else st.just(set()), label="resting")
        self.advance(
            lambda seq: caps[seq.seq_id % len(caps)],
            lambda seq: luck[seq.seq_id % len(luck)],
            frozenset(resting),
        )

    def advance(self, cap: Choose, luck: Choose, resting: frozenset[int]) -> None:
        plainly = deepcopy(self.paper.scheduler)
        without = plainly.schedule(plain, resting)
        plan = self.paper.step(cap, lambda decode: min(luck(decode.seq), decode.max_draft), resting)
        assert [seq.seq_id for seq in plan.preempted] == [seq.seq_id for seq in without.preempted]
        assert len(plan.decodes) == len(without.decodes)
        self.check_prefill_share(plan, without)

    def check_prefill_share(self, plan: StepPlan, without: StepPlan) -> None:
        rows, wanted = (sum(chunk.length for chunk in each.prefills) for each in (plan, without))
        assert rows >= min(wanted, max(1, self.paper.scheduler.max_num_batched_tokens // 4))

    @precondition(lambda self: self.paper.scheduler.has_work)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(list(self.paper.scheduler.sequences)), label="aborted")
        assert self.paper.scheduler.abort(seq.request.request_id) is seq
        assert seq.finished

    @precondition(lambda self: self.paper.scheduler.num_running)
    @rule(data=st.data(), failed=st.booleans())
    def stop(self, data: st.DataObject, failed: bool) -> None:
        running = [seq for seq in self.paper.scheduler.sequences if seq.status is Status.RUNNING]
        self.paper.scheduler.finish(data.draw(st.sampled_from(running), label="stopped"), failed)

    @invariant()
    def consistent(self) -> None:
        self.paper.check_consistent()

    def teardown(self) -> None:
        if hasattr(self, "paper"):
            self.paper.run(lambda seq: 3, lambda decode: decode.max_draft // 2)
            self.paper.check_idle()


TestAnyTraffic = AnyTraffic.TestCase
TestAnyTraffic.settings = settings(max_examples=200, stateful_step_count=40)
