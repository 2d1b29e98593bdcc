"""BlockManager: all or nothing, nothing twice, nothing lost; what is published is found until taken."""

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


# Published blocks


def published(blocks: BlockManager, *keys: bytes) -> list[int]:
    """A table of full blocks that are known by `keys`."""
    table: list[int] = []
    assert blocks.grow(table, len(keys) * blocks.block_size)
    for place, key in enumerate(keys):
        blocks.publish(table, place, key)
    return table


def test_what_is_published_is_found_up_to_the_first_gap() -> None:
    blocks = BlockManager(8, 16)
    table = published(blocks, b"a", b"b", b"c")
    assert blocks.find([b"a", b"b", b"c", b"d"]) == table
    assert blocks.find([b"a", b"x", b"c"]) == table[:1]
    assert blocks.find([b"x", b"a"]) == blocks.find([]) == []


def test_adopted_blocks_are_held_by_all_who_share_them() -> None:
    blocks = BlockManager(8, 16)
    first, second = published(blocks, b"a", b"b"), []
    blocks.adopt(second, blocks.find([b"a", b"b"]))
    assert blocks.grow(second, 40)
    assert (second[:2], len(second), blocks.num_free) == (first, 3, 5)
    blocks.check_integrity([first, second])
    blocks.release(first)
    assert blocks.num_free == 5
    blocks.check_integrity([second])
    blocks.release(second)
    assert blocks.num_free == 8
    blocks.check_integrity([])


def test_a_published_block_that_is_given_back_is_free_and_can_still_be_found() -> None:
    blocks, again = BlockManager(4, 16), []
    table = published(blocks, b"a", b"b")
    held = list(table)
    blocks.release(table)
    assert (blocks.num_free, blocks.usage) == (4, 0.0)
    blocks.adopt(again, blocks.find([b"a", b"b"]))
    assert (again, blocks.num_free) == (held, 2)
    blocks.check_integrity([again])


def test_blank_blocks_are_taken_before_cached_ones() -> None:
    blocks, table = BlockManager(4, 16), []
    blocks.release(published(blocks, b"a", b"b"))
    assert blocks.grow(table, 2 * 16)
    assert len(blocks.find([b"a", b"b"])) == 2


def test_the_longest_unused_goes_first_and_of_one_request_the_last_block() -> None:
    blocks, table = BlockManager(5, 16), []
    blocks.release(published(blocks, b"a1", b"a2"))
    blocks.release(published(blocks, b"b1", b"b2", b"b3"))
    left = []
    for slots in range(16, 6 * 16, 16):
        assert blocks.grow(table, slots)
        left.append((len(blocks.find([b"a1", b"a2"])), len(blocks.find([b"b1", b"b2", b"b3"]))))
    assert left == [(1, 3), (0, 3), (0, 2), (0, 1), (0, 0)]
    blocks.check_integrity([table])


def test_using_a_block_again_makes_it_young() -> None:
    blocks, table, again = BlockManager(2, 16), [], []
    blocks.release(published(blocks, b"a"))
    blocks.release(published(blocks, b"b"))
    blocks.adopt(again, blocks.find([b"a"]))
    blocks.release(again)
    assert blocks.grow(table, 16)
    assert (len(blocks.find([b"a"])), blocks.find([b"b"])) == (1, [])


def test_an_equal_block_takes_the_place_of_ones_own() -> None:
    """Two prompts that were computed at the same time share what is equal from then on."""
    blocks = BlockManager(8, 16)
    first, second = published(blocks, b"a", b"b"), published(blocks, b"a", b"b", b"c")
    assert second[:2] == first
    assert blocks.num_free == 5
    blocks.check_integrity([first, second])


@pytest.mark.parametrize("held", [0, 1, 2])
def test_free_needed_counts_found_blocks_that_nobody_holds(held: int) -> None:
    blocks, holder, newcomer = BlockManager(8, 16), [], []
    blocks.release(published(blocks, b"a", b"b"))
    blocks.adopt(holder, blocks.find([b"a", b"b"][:held]))
    found, before = blocks.find([b"a", b"b"]), blocks.num_free
    needed = blocks.free_needed(found, 70)
    blocks.adopt(newcomer, found)
    assert blocks.grow(newcomer, 70)
    assert before - blocks.num_free == needed == 5 - held


def test_withdrawn_blocks_are_not_found_and_stay_with_those_who_share_them() -> None:
    blocks, second = BlockManager(4, 16), []
    first = published(blocks, b"a", b"b")
    blocks.adopt(second, blocks.find([b"a"]))
    blocks.withdraw(first)
    assert blocks.find([b"a"]) == []
    blocks.check_integrity([first, second])
    blocks.release(first)
    blocks.release(second)
    assert blocks.find([b"a"]) == []
    blocks.check_integrity([])


def test_only_private_blocks_may_be_written() -> None:
    blocks, second = BlockManager(4, 16), []
    first = published(blocks, b"a")
    assert blocks.grow(first, 20)
    blocks.check_private(first, 16)
    with pytest.raises(AssertionError):
        blocks.check_private(first, 15)
    blocks.adopt(second, blocks.find([b"a"]))
    blocks.withdraw(first)
    with pytest.raises(AssertionError):
        blocks.check_private(first, 0)


# Integrity


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
    """Tables grow, shrink and go in any order; coverage and what is free are known from slot counts alone.

    Some are published: table i is a text of its family, i % 2, so that tables come to share blocks.
    """

    @initialize(num_blocks=st.integers(1, 12), block_size=st.integers(1, 5))
    def start(self, num_blocks: int, block_size: int) -> None:
        self.blocks = BlockManager(num_blocks, block_size)
        self.tables: list[list[int]] = [[] for _ in range(4)]
        self.content: dict[int, bytes] = {}

    def keys(self, which: int) -> list[bytes]:
        return [bytes([which % 2, place]) for place in range(40)]

    @rule(which=st.integers(0, 3), most=st.integers(0, 5))
    def adopt(self, which: int, most: int) -> None:
        table = self.tables[which]
        if not table:
            found = self.blocks.find(self.keys(which)[:most])
            self.blocks.adopt(table, found)
            assert [self.content[block] for block in found] == self.keys(which)[: len(found)]

    @rule(which=st.integers(0, 3))
    def publish(self, which: int) -> None:
        """Whatever is not known yet, from the start on."""
        table = self.tables[which]
        for place, key in enumerate(self.keys(which)[: len(table)]):
            if self.blocks.key(table[place]) is None:
                self.content[table[place]] = key
                self.blocks.publish(table, place, key)
            assert self.blocks.key(table[place]) == self.content[table[place]] == key
        assert self.blocks.find(self.keys(which)[: len(table)]) == table

    @rule(which=st.integers(0, 3))
    def withdraw(self, which: int) -> None:
        self.blocks.withdraw(self.tables[which])
        assert all(self.blocks.key(block) is None for block in self.tables[which])

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
        held = {block for table in self.tables for block in table}
        assert self.blocks.num_free == self.blocks.num_blocks - len(held)


TestAnyUse = AnyUse.TestCase
TestAnyUse.settings = settings(max_examples=100, stateful_step_count=30)
