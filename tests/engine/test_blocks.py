"""BlockManager: all or nothing, nothing twice, nothing lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from serving.engine.blocks import BlockManager


@pytest.mark.parametrize(("num_slots", "num_blocks"), [(0, 0), (1, 1), (16, 1), (17, 2), (32, 2), (33, 3)])
def test_blocks_for(num_slots: int, num_blocks: int) -> None:
    assert BlockManager(8, 16).blocks_for(num_slots) == num_blocks


def test_grow_covers_and_is_idempotent() -> None:
    blocks, table = BlockManager(4, 16), []
    assert blocks.grow(table, 17)
    assert blocks.grow(table, 32)
    assert blocks.grow(table, 1)
    assert len(set(table)) == len(table) == 2
    assert (blocks.num_free, blocks.usage) == (2, 0.5)


def test_grow_takes_all_or_nothing() -> None:
    blocks, table, other = BlockManager(4, 16), [], []
    assert blocks.grow(table, 3 * 16)
    assert not blocks.grow(other, 2 * 16)
    assert (other, blocks.num_free) == ([], 1)
    assert not blocks.grow(table, 5 * 16)
    assert (len(table), blocks.num_free) == (3, 1)


def test_reach_is_what_grow_can_cover() -> None:
    blocks, table, other = BlockManager(4, 16), [], []
    blocks.grow(table, 20)
    blocks.grow(other, 1)
    assert blocks.reach(table) == 48
    assert blocks.grow(table, 48)
    assert not blocks.grow(table, 49)
    assert blocks.reach(table) == 48


def test_trim_gives_back_the_tail_only() -> None:
    blocks, table = BlockManager(4, 16), []
    blocks.grow(table, 64)
    head = table[:2]
    blocks.trim(table, 17)
    assert (table, blocks.num_free) == (head, 2)
    blocks.trim(table, 100)
    assert (table, blocks.num_free) == (head, 2)


def test_release_empties_the_table_in_place() -> None:
    blocks, table = BlockManager(4, 16), []
    blocks.grow(table, 64)
    blocks.release(table)
    assert (table, blocks.num_free, blocks.usage) == ([], 4, 0.0)


def test_the_block_given_back_last_is_reused_first() -> None:
    blocks, first, second, third = BlockManager(8, 16), [], [], []
    blocks.grow(first, 16)
    blocks.grow(second, 16)
    warm = second[0]
    blocks.release(first)
    blocks.release(second)
    blocks.grow(third, 16)
    assert third == [warm]


def test_capacity() -> None:
    assert BlockManager(5, 16).capacity_tokens == 80


def lose(tables: list[list[int]]) -> None:
    tables.pop()


def alias(tables: list[list[int]]) -> None:
    tables[1][0] = tables[0][0]


def share_uncounted(tables: list[list[int]]) -> None:
    tables[1].append(tables[0][0])


def use_freed(tables: list[list[int]]) -> None:
    tables[0].append(next(iter(set(range(8)) - {block for table in tables for block in table})))


def invent(tables: list[list[int]]) -> None:
    tables[0].append(8)


@pytest.mark.parametrize("corrupt", [lose, alias, share_uncounted, use_freed, invent])
def test_integrity_check_sees(corrupt: Callable[[list[list[int]]], None]) -> None:
    blocks = BlockManager(8, 16)
    tables: list[list[int]] = [[], []]
    assert all(blocks.grow(table, 40) for table in tables)
    blocks.check_integrity(tables)
    corrupt(tables)
    with pytest.raises(AssertionError):
        blocks.check_integrity(tables)


def test_returning_a_block_twice_is_a_bug() -> None:
    blocks, table = BlockManager(4, 16), []
    blocks.grow(table, 16)
    stale = list(table)
    blocks.release(table)
    with pytest.raises(AssertionError):
        blocks.release(stale)


class AnyUse(RuleBasedStateMachine):
    """Tables grow, shrink and go in any order; coverage and what is free are known from slot counts alone."""

    @initialize(num_blocks=st.integers(1, 12), block_size=st.integers(1, 5))
    def start(self, num_blocks: int, block_size: int) -> None:
        self.blocks = BlockManager(num_blocks, block_size)
        self.tables: list[list[int]] = [[] for _ in range(4)]

    @rule(which=st.integers(0, 3), num_slots=st.integers(0, 40))
    def grow(self, which: int, num_slots: int) -> None:
        table, before = self.tables[which], list(self.tables[which])
        missing = max(0, -(-num_slots // self.blocks.block_size) - len(table))
        fits = missing <= self.blocks.num_free
        assert self.blocks.grow(table, num_slots) is fits
        assert table[: len(before)] == before
        assert len(table) == len(before) + (missing if fits else 0)

    @rule(which=st.integers(0, 3), num_slots=st.integers(0, 40))
    def trim(self, which: int, num_slots: int) -> None:
        table, before = self.tables[which], list(self.tables[which])
        self.blocks.trim(table, num_slots)
        assert table == before[: -(-num_slots // self.blocks.block_size)]

    @rule(which=st.integers(0, 3))
    def release(self, which: int) -> None:
        self.blocks.release(self.tables[which])
        assert self.tables[which] == []

    @invariant()
    def adds_up(self) -> None:
        self.blocks.check_integrity(self.tables)
        assert self.blocks.num_free == self.blocks.num_blocks - sum(map(len, self.tables))


TestAnyUse = AnyUse.TestCase
TestAnyUse.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
