"""Decides what the next forward computes: roots, draft trees and prefill chunks under one row budget."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from serving.engine.blocks import BlockManager
from serving.engine.prefix_cache import PrefixCache
from serving.engine.sequence import Sequence, Status
from serving.errors import ConfigError


class Decode(NamedTuple):
    """Feed the root and verify up to `max_draft` tree nodes.

    Slots num_computed (the root's) .. num_computed + max_draft are held.
    """

    seq: Sequence
    max_draft: int


class Prefill(NamedTuple):
    """Feed token_ids[start : start + length]."""

    seq: Sequence
    start: int
    length: int

    @property
    def last(self) -> bool:
        """The chunk ends at the last token: its last row's logits are sampled. Ask before appending."""
        return self.start + self.length == len(self.seq.token_ids)


@dataclass(frozen=True)
class StepPlan:
    """One forward. A sequence occurs at most once, a preempted one (its blocks are gone) not at all."""

    decodes: tuple[Decode, ...]
    prefills: tuple[Prefill, ...]
    preempted: tuple[Sequence, ...]

    @property
    def num_rows(self) -> int:
        """Rows of the forward if every tree is as large as it may be."""
        drafted = sum(decode.max_draft for decode in self.decodes)
        return len(self.decodes) + drafted + sum(chunk.length for chunk in self.prefills)

    @property
    def empty(self) -> bool:
        return not self.decodes and not self.prefills


class Scheduler:
    """First come, first served within a priority, with preemption of the last that came.

    Running sequences are in order of admission: of one priority they are older than waiting ones. Those of
    priority 1 wait while any of priority 0 does, are preempted for it, and are preempted first. A sequence
    is admitted with blocks for all the tokens it has, so that prefill never waits for memory: only the root
    of a decode can find the cache full. The first of the best priority therefore always advances: every
    request ends, those of priority 1 when the others leave room. It begins with what the prefix cache has
    of it.

    Raises ConfigError if a step might not have a row for every running sequence.
    """

    def __init__(
        self,
        blocks: BlockManager,
        *,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        max_model_len: int,
        enable_prefix_caching: bool = True,
    ) -> None:
        if max_num_seqs > max_num_batched_tokens:
            raise ConfigError(
                f"engine.max_num_seqs ({max_num_seqs}) must not exceed engine.max_num_batched_tokens "
                f"({max_num_batched_tokens}): every running sequence needs a row in every step"
            )
        assert max_model_len <= blocks.capacity_tokens
        self.blocks = blocks
        self.prefixes = PrefixCache(blocks, enable_prefix_caching)
        self.max_num_seqs = max_num_seqs
        self.max_num_batched_tokens = max_num_batched_tokens
        self.max_model_len = max_model_len
        self._running: list[Sequence] = []
        self._waiting: deque[Sequence] = deque()

    @property
    def running(self) -> tuple[Sequence, ...]:
        """Those that hold blocks, in order of admission."""
        return tuple(self._running)

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def has_work(self) -> bool:
        return bool(self._running or self._waiting)

    @property
    def sequences(self) -> Iterator[Sequence]:
        """All that are not finished: those that run, then those that wait."""
        return chain(self._running, self._waiting)

    @property
    def prefill_pending(self) -> int:
        """Prompt tokens that are not computed yet, of running sequences and of the next that may run."""
        coming = self._next() if self.num_running < self.max_num_seqs else None
        return self._prefill_running + (coming.num_uncomputed if coming else 0)

    @property
    def _prefill_running(self) -> int:
        return sum(seq.num_uncomputed for seq in self._running if not seq.is_decoding)

    def room(self, seq: Sequence) -> int:
        """Tokens that max_tokens and the context limit still allow. At 0 the sequence must be finished."""
        return min(seq.remaining, self.max_model_len - len(seq.token_ids))

    def add(self, seq: Sequence) -> None:
        assert seq.status is Status.WAITING
        assert self.room(seq) > 0
        self._waiting.append(seq)

    def abort(self, request_id: str) -> Sequence | None:
        """Remove a sequence wherever it is. None: unknown, or finished already."""
        for seq in self.sequences:
            if seq.request.request_id == request_id:
                self.finish(seq)
                return seq
        return None

    def finish(self, seq: Sequence, failed: bool = False) -> None:
        """Forget the sequence and free its blocks. What a `failed` one computed nobody shall begin with."""
        queue = self._running if seq.status is Status.RUNNING else self._waiting
        queue.remove(seq)
        if failed:
            self.blocks.withdraw(seq.block_table)
        else:
            self.prefixes.publish(seq)
        self.blocks.release(seq.block_table)
        seq.status = Status.FINISHED

    def schedule(self, draft_cap: Callable[[Sequence], int], resting: Set[int] = frozenset()) -> StepPlan:
        """Plan one step. `draft_cap(seq)`: draft tokens the caller would verify for it, at least 0.

        resting: ids of decoding sequences that sit this step out. If no others are left to compute, or they
        have been preempted, the plan is empty.
        """
        preempted = self._hold_roots()
        if not preempted:
            preempted = self._admit()
        decodes = self._plan_decodes(draft_cap, resting)
        prefills = self._plan_prefills(beside=decodes)
        for seq in (*(decode.seq for decode in decodes), *(chunk.seq for chunk in prefills)):
            self.blocks.check_private(seq.block_table, seq.num_computed)
        return StepPlan(decodes, prefills, preempted)

    def committed(self, seq: Sequence) -> None:
        """Give back the slots of rejected nodes and let others find full blocks, once tokens are appended
        and num_computed is advanced."""
        assert seq.num_computed < len(seq.token_ids)
        self.blocks.trim(seq.block_table, len(seq.token_ids))
        self.prefixes.publish(seq)

    def check_integrity(self) -> None:
        """Assert that blocks and queues are consistent. Valid between steps."""
        assert len(self._running) <= self.max_num_seqs
        assert all(seq.status is Status.RUNNING for seq in self._running)
        assert all(seq.status is Status.WAITING and not seq.block_table for seq in self._waiting)
        assert all(self.blocks.blocks_for(seq.num_computed) <= len(seq.block_table) for seq in self.sequences)
        self.blocks.check_integrity(seq.block_table for seq in self.sequences)
        for seq in self.sequences:
            self.prefixes.check_integrity(seq)

    def _hold_roots(self) -> tuple[Sequence, ...]:
        """Cover every running sequence's root, oldest first, at the cost of the last."""
        preempted = []
        for seq in tuple(self._running):
            while seq.status is Status.RUNNING and not self.blocks.grow(seq.block_table, len(seq.token_ids)):
                assert self.num_running > 1, "a lone sequence fits: max_model_len <= capacity_tokens"
                preempted.append(self._preempt_last())
        return tuple(preempted)

    def _preempt_last(self) -> Sequence:
        """Of the worst priority the one that was admitted last."""
        place = max(range(self.num_running), key=lambda i: (self._running[i].request.priority, i))
        seq = self._running.pop(place)
        self.blocks.release(seq.block_table)
        seq.restart()
        self._waiting.appendleft(seq)
        return seq

    def _admit(self) -> tuple[Sequence, ...]:
        """Start waiting sequences while the step would have rows to spare. Returns those that yielded."""
        yielded: list[Sequence] = []
        while (seq := self._next()) and self._rows_before(seq) < self.max_num_batched_tokens:
            if seq in yielded:
                break
            if self.num_running < self.max_num_seqs and self._hold_all(seq):
                self._waiting.remove(seq)
                seq.status = Status.RUNNING
                self._running.append(seq)
            elif any(other.request.priority > seq.request.priority for other in self._running):
                yielded.append(self._preempt_last())
            else:
                break
        return tuple(yielded)

    def _next(self) -> Sequence | None:
        """Of the best priority the one that has waited longest."""
        return min(self._waiting, key=lambda seq: seq.request.priority, default=None)

    def _rows_before(self, newcomer: Sequence) -> int:
        """That running sequences want, but for those that would yield them to the newcomer."""
        priority = newcomer.request.priority
        return sum(seq.num_uncomputed for seq in self._running if seq.request.priority <= priority)

    def _hold_all(self, seq: Sequence) -> bool:
        """Cover a waiting sequence's tokens, first with what is cached of them. False: too few are free."""
        found = self.prefixes.find(seq)
        # Free blocks kept for the growth of those that run, or a newcomer would soon be preempted again.
        watermark = max(self.blocks.num_blocks // 100, self.num_running) if self._running else 0
        if self.blocks.free_needed(found, len(seq.token_ids)) + watermark > self.blocks.num_free:
            return False
        self.prefixes.adopt(seq, found)
        held = self.blocks.grow(seq.block_table, len(seq.token_ids))
        assert held
        return True

    def _plan_decodes(self, draft_cap: Callable[[Sequence], int], resting: Set[int]) -> tuple[Decode, ...]:
        """A row for every root; trees share what is left, less prefill's part."""
        decoding = [seq for seq in self._running if seq.is_decoding and seq.seq_id not in resting]
        rows = self.max_num_batched_tokens - len(decoding) - self._prefill_share()
        wishes = [min(draft_cap(seq), self.room(seq) - 1) for seq in decoding]
        shares = zip(decoding, share_evenly(wishes, max(rows, 0)), strict=True)
        return tuple(Decode(seq, self._hold_tree(seq, share)) for seq, share in shares)

    def _prefill_share(self) -> int:
        """Rows that trees leave to prefill, where there is some: a quarter of the budget."""
        return min(self._prefill_running, max(1, self.max_num_batched_tokens // 4))

    def _hold_tree(self, seq: Sequence, share: int) -> int:
        """Hold slots for up to `share` nodes behind the root: as many as free blocks allow, evicting nobody.

        The watermark does not apply: `committed` gives these slots back within the step.
        """
        end = min(len(seq.token_ids) + share, self.blocks.reach(seq.block_table))
        self.blocks.grow(seq.block_table, end)
        return end - len(seq.token_ids)

    def _plan_prefills(self, beside: tuple[Decode, ...]) -> tuple[Prefill, ...]:
        """Chunks as long as the rows left by decodes allow, oldest first within a priority."""
        rows = self.max_num_batched_tokens - sum(1 + decode.max_draft for decode in beside)
        chunks = []
        for seq in sorted(self._running, key=lambda seq: seq.request.priority):
            length = min(seq.num_uncomputed, rows)
            if length > 0 and not seq.is_decoding:
                chunks.append(Prefill(seq, seq.num_computed, length))
                rows -= length
        return tuple(chunks)


def share_evenly(wishes: list[int], rows: int) -> list[int]:
    """Split `rows` so that the smallest shares are as large as can be, and none exceeds its wish.

    The k-th node of a tree is worth less than the one before it, so when rows are short, even shares yield
    more accepted tokens than whole trees for some and none for the others.
    """
    assert all(wish >= 0 for wish in wishes)
    shares = [0] * len(wishes)
    for served, index in enumerate(sorted(range(len(wishes)), key=wishes.__getitem__)):
        shares[index] = min(wishes[index], rows // (len(wishes) - served))
        rows -= shares[index]
    return shares
