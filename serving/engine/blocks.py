"""Which blocks of the paged cache are whose: host bookkeeping only, the tensors are elsewhere."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from itertools import chain


class BlockManager:
    """Hands out `num_blocks` blocks of `block_size` token slots, and counts the references to each.

    A block table lists the blocks of one sequence in order of position. Tables belong to the caller, who
    changes them only through these methods.

    A block is held by tables, as many as it has references, or free. A block that was published under a key
    can be found by it and shared until it is taken for something else, so free blocks are of two kinds:

        blank     no key: taken first
        cached    a key: taken when no blank one is left, the one that was given back longest ago first
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        assert num_blocks >= 1
        assert block_size >= 1
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._references = [0] * num_blocks
        # A stack: the block given back last is the likeliest to be warm in the processor's caches.
        self._blank = list(reversed(range(num_blocks)))
        self._cached: OrderedDict[int, None] = OrderedDict()
        self._key_of: dict[int, bytes] = {}
        self._block_of: dict[bytes, int] = {}

    @property
    def num_free(self) -> int:
        return len(self._blank) + len(self._cached)

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
        """Give back trailing blocks that `num_slots` slots do not need, the last one first.

        So a published block is taken again only after those that continue it: no other order leaves as much
        that can be found from the start.
        """
        for _ in range(len(table) - self.blocks_for(num_slots)):
            self._drop(table.pop())

    def release(self, table: list[int]) -> None:
        """Give back every block; `table` is empty afterwards."""
        self.trim(table, 0)

    def key(self, block: int) -> bytes | None:
        """What the block can be found by."""
        return self._key_of.get(block)

    def find(self, keys: Iterable[bytes]) -> list[int]:
        """The blocks published under `keys`, up to the first key that there is no block for."""
        found = []
        for key in keys:
            block = self._block_of.get(key)
            if block is None:
                break
            found.append(block)
        return found

    def free_needed(self, found: Sequence[int], num_slots: int) -> int:
        """Free blocks that a table of `num_slots` slots takes if it begins with `found`."""
        return self.blocks_for(num_slots) - sum(self._references[block] > 0 for block in found)

    def adopt(self, table: list[int], found: Iterable[int]) -> None:
        """Begin the empty `table` with blocks that `find` has just returned."""
        assert not table
        for block in found:
            self._share(block)
            table.append(block)

    def publish(self, table: list[int], place: int, key: bytes) -> None:
        """Make the block at `table[place]`, full and never to be written again, known by `key`.

        Where an equal block is known already, the table gets that one and gives its own back.
        """
        own = table[place]
        assert own not in self._key_of
        known = self._block_of.setdefault(key, own)
        if known == own:
            self._key_of[own] = key
            return
        self._share(known)
        table[place] = known
        self._drop(own)

    def withdraw(self, table: Iterable[int]) -> None:
        """Let nobody find the held blocks of `table` any more; those who share them keep them."""
        for block in table:
            assert self._references[block] > 0
            self._forget(block)

    def check_private(self, table: list[int], start: int) -> None:
        """Assert that slots from `start` on may be written: their blocks are no one else's and not known."""
        for block in table[start // self.block_size :]:
            assert self._references[block] == 1
            assert block not in self._key_of

    def check_integrity(self, tables: Iterable[list[int]]) -> None:
        """Assert that `tables` are exactly the references counted, that every other block is free, and that
        free blocks are kept by what they are."""
        held = Counter(chain.from_iterable(tables))
        assert self._references == [held[block] for block in range(self.num_blocks)]
        assert sorted([*held, *self._blank, *self._cached]) == list(range(self.num_blocks))
        assert self._block_of == {key: block for block, key in self._key_of.items()}
        assert self._cached.keys() <= self._key_of.keys()
        assert self._key_of.keys().isdisjoint(self._blank)

    def _take(self) -> int:
        block = self._blank.pop() if self._blank else self._evict()
        assert self._references[block] == 0
        self._references[block] = 1
        return block

    def _evict(self) -> int:
        block, _ = self._cached.popitem(last=False)
        self._forget(block)
        return block

    def _forget(self, block: int) -> None:
        key = self._key_of.pop(block, None)
        if key is not None:
            del self._block_of[key]

    def _share(self, block: int) -> None:
        self._cached.pop(block, None)
        self._references[block] += 1

    def _drop(self, block: int) -> None:
        assert self._references[block] > 0
        self._references[block] -= 1
        if self._references[block] > 0:
            return
        if block in self._key_of:
            self._cached[block] = None
        else:
            self._blank.append(block)
