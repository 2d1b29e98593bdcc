"""The sequences that a drafter holds, and the blocks of its cache that they occupy."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Set
from dataclasses import dataclass, field

from serving.drafting.messages import Open, SeqKey
from serving.engine.blocks import BlockManager


@dataclass(slots=True, eq=False)
class Held:
    """An open sequence: positions 0 .. length - 1 are in the drafter's cache. opened: what opened it."""

    opened: Open
    heard_at: float
    length: int = 0
    block_table: list[int] = field(default_factory=list)


class DraftSequences:
    """State that can be had again at any time: what is dropped, the verifier opens anew.

    When blocks run out, or a lease does, the sequences that have been silent for longest go first.
    """

    def __init__(
        self, blocks: BlockManager, lease_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._blocks, self._lease_s, self._clock = blocks, lease_s, clock
        self._held: OrderedDict[SeqKey, Held] = OrderedDict()  # the longest silent first

    @property
    def block_size(self) -> int:
        return self._blocks.block_size

    def __contains__(self, key: SeqKey) -> bool:
        return key in self._held

    def open(self, message: Open) -> None:
        """Start again from nothing."""
        self.drop(message.key)
        self._held[message.key] = Held(message, self._clock())

    def drop(self, key: SeqKey) -> None:
        """Unknown ones are ignored."""
        held = self._held.pop(key, None)
        if held is not None:
            self._blocks.release(held.block_table)

    def expire(self) -> None:
        """Drop what has been silent for longer than its lease."""
        limit = self._clock() - self._lease_s
        while self._held and next(iter(self._held.values())).heard_at < limit:
            self.drop(next(iter(self._held)))

    def admit(self, key: SeqKey, start: int, slots: int, busy: Set[SeqKey]) -> Held | None:
        """The sequence that stands at `start`, with room for `slots` slots.

        None, and nothing is held of it any more, when it stands elsewhere or there is no room without
        those that are `busy`.
        """
        held = self._held.get(key)
        if held is None:
            return None
        if held.length != start or not self._make_room(held, slots, busy | {key}):
            self.drop(key)
            return None
        held.heard_at = self._clock()
        self._held.move_to_end(key)
        return held

    def trim(self, held: Held) -> None:
        """Give back the blocks that only a tree was in."""
        self._blocks.trim(held.block_table, held.length)

    def check_integrity(self) -> None:
        """Assert that the blocks add up."""
        self._blocks.check_integrity(held.block_table for held in self._held.values())
        assert all(len(h.block_table) == self._blocks.blocks_for(h.length) for h in self._held.values())

    def _make_room(self, held: Held, slots: int, spare: Set[SeqKey]) -> bool:
        while not self._blocks.grow(held.block_table, slots):
            silent = next((key for key in self._held if key not in spare), None)
            if silent is None:
                return False
            self.drop(silent)
        return True
