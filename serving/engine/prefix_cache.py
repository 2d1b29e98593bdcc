"""Computed prefixes that later requests begin with: full blocks, known by all tokens up to their end."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from serving.engine.blocks import BlockManager
from serving.engine.sequence import Sequence


class PrefixCounts(NamedTuple):
    """Tokens of requests that started, and those of them that were found.

    A request counts once: what it finds again after a preemption is its own.
    """

    queries: int
    hits: int


@dataclass(slots=True)
class PrefixCache:
    """Finds and publishes the blocks of sequences. Not `enabled`: finds and publishes nothing."""

    blocks: BlockManager
    enabled: bool = True
    _queries: int = 0
    _hits: int = 0

    def find(self, seq: Sequence) -> list[int]:
        """The longest cached beginning of the sequence, in blocks. Its last token is always left to compute:
        somebody waits for the logits behind it. Nothing where all the prompt's logits are waited for."""
        if not self.enabled or seq.wants_prompt_logits:
            return []
        full = (len(seq.token_ids) - 1) // self.blocks.block_size
        self._extend_keys(seq, full)
        return self.blocks.find(seq.block_keys[:full])

    def adopt(self, seq: Sequence, found: list[int]) -> None:
        """Begin an admitted sequence with what `find` has just returned."""
        self.blocks.adopt(seq.block_table, found)
        seq.num_computed = len(found) * self.blocks.block_size
        if self.enabled and seq.num_cached is None:
            seq.num_cached = seq.num_computed
            self._queries += len(seq.token_ids)
            self._hits += seq.num_computed

    def publish(self, seq: Sequence) -> None:
        """Let others find the blocks that are full of committed tokens' KV: never a draft's, which may be
        rejected and is then overwritten."""
        if not self.enabled:
            return
        # What was accepted behind a stop token is computed and not part of the text.
        full = min(seq.num_computed, len(seq.token_ids)) // self.blocks.block_size
        first = full
        while first > 0 and self.blocks.key(seq.block_table[first - 1]) is None:
            first -= 1
        self._extend_keys(seq, full)
        for place in range(first, full):
            self.blocks.publish(seq.block_table, place, seq.block_keys[place])

    def take_counts(self) -> PrefixCounts:
        """What was counted since the last call."""
        counts = PrefixCounts(self._queries, self._hits)
        self._queries = self._hits = 0
        return counts

    def check_integrity(self, seq: Sequence) -> None:
        """Assert that the sequence shares what is committed alone, and under the right keys."""
        self.blocks.check_private(seq.block_table, seq.num_computed)
        for place, block in enumerate(seq.block_table):
            assert self.blocks.key(block) in (None, *seq.block_keys[place : place + 1])

    def _extend_keys(self, seq: Sequence, full: int) -> None:
        """Committed tokens never change, so neither do keys."""
        size, keys = self.blocks.block_size, seq.block_keys
        for place in range(len(keys), full):
            parent = keys[-1] if keys else _root(seq.request.cache_salt)
            keys.append(_key(parent, seq.token_ids[place * size : (place + 1) * size]))


def _root(salt: str | None) -> bytes:
    """The parent of a first block. Requests with different salts find nothing of each other's."""
    return b"" if salt is None else blake2b(salt.encode(), digest_size=32, person=b"salt").digest()


def _key(parent: bytes, token_ids: list[int]) -> bytes:
    """32 bytes of BLAKE2b over the parent's key and the block's tokens.

    Tokens are not compared on a hit: to make two prefixes collide takes 2^128 trials, also for somebody who
    wants to read another's cache.
    """
    return blake2b(parent + array("i", token_ids).tobytes(), digest_size=32, person=b"block").digest()
