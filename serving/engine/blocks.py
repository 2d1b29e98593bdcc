"""Which blocks of the paged cache are whose: host bookkeeping only, the tensors are elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain


class BlockManager:
    """Hands out `num_blocks` blocks of `block_size` token slots, and counts the references to each.

    A block table lists the blocks of one sequence in order of position. Tables belong to the caller, who
    changes them only through these methods.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        assert num_blocks >= 1
        assert block_size >= 1
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._references = [0] * num_blocks
        # A stack: the block given back last is the likeliest to be warm in the processor's caches.
        self._free = list(reversed(range(num_blocks)))

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def usage(self) -> float:
        """Share of the blocks in use, 0 to 1."""
        return 1.0 - self.num_free / self.num_blocks

    @property
    def capacity_tokens(self) -> int:
        """Slots in all: the longest sequence that fits when it is alone."""
        return self.num_blocks * self.block_size

    def blocks_for(self, num_slots: int) -> int:
        return -(-num_slots // self.block_size)

    def reach(self, table: list[int]) -> int:
        """Slots that `table` could cover if it took every free block."""
        return (len(table) + self.num_free) * self.block_size

    def grow(self, table: list[int], num_slots: int) -> bool:
        """Append blocks until `table` covers `num_slots`. All or nothing: False if too few are free."""
        missing = self.blocks_for(num_slots) - len(table)
        if missing > self.num_free:
            return False
        table.extend(self._take() for _ in range(missing))
        return True

    def trim(self, table: list[int], num_slots: int) -> None:
        """Give back trailing blocks that `num_slots` slots do not need."""
        for _ in range(len(table) - self.blocks_for(num_slots)):
            self._drop(table.pop())

    def release(self, table: list[int]) -> None:
        """Give back every block; `table` is empty afterwards."""
        self.trim(table, 0)

    def check_integrity(self, tables: Iterable[list[int]]) -> None:
        """Assert that `tables` are exactly the references counted, and that every other block is free."""
        held = Counter(chain.from_iterable(tables))
        assert self._references == [held[block] for block in range(self.num_blocks)]
        assert sorted([*held, *self._free]) == list(range(self.num_blocks))

    def _take(self) -> int:
        block = self._free.pop()
        assert self._references[block] == 0
        self._references[block] = 1
        return block

    def _drop(self, block: int) -> None:
        assert self._references[block] > 0
        self._references[block] -= 1
        if self._references[block] == 0:
            self._free.append(block)
