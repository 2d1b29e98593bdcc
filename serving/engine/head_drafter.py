"""Drafting with a head: extend its cache over committed tokens, then grow one tree per sequence, batched."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from serving.drafting.base import Drafter
from serving.drafting.messages import Close, Extend, Open, Proposal, Propose, SeqKey
from serving.engine.attention.base import AttentionBackend
from serving.engine.batch import Batch
from serving.engine.blocks import BlockManager
from serving.engine.features import from_wire
from serving.models.heads.eagle3 import Eagle3Head
from serving.spec.growth import GrowingTree, Node
from serving.spec.tree import ROOT, DraftTree

MAX_ROWS = 512  # of one forward: a long prompt is fed in chunks


@dataclass(slots=True, eq=False)
class _Held:
    """An open sequence: positions 0 .. length - 1 are in the head's cache."""

    heard_at: float
    length: int = 0
    block_table: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Growth:
    """One sequence's tree while it grows. Tree row 0 is the last committed pair; rows follow as nodes expand.

    row_of: tree row of each expanded node; hidden_row: where its output is in the last forward's.
    """

    held: _Held
    extend: Extend
    max_depth: int
    tree: GrowingTree
    parents: list[int] = field(default_factory=lambda: [-1])
    row_of: dict[int, int] = field(default_factory=lambda: {ROOT: 0})
    hidden_row: dict[int, int] = field(default_factory=dict)
    frontier: list[Node] = field(default_factory=list)

    @property
    def context(self) -> int:
        """Positions before tree row 0."""
        return self.extend.base_len - 2


class _Rows(NamedTuple):
    """Rows of one sequence for one forward: tokens at positions, at slots context + done ..."""

    held: _Held
    token_ids: list[int]
    positions: list[int]
    context: int
    done: int
    parents: list[int] | None  # of the whole tree; None: a chain


class HeadDrafter(Drafter):
    """An EAGLE-3 head with its own paged cache; only committed positions persist between proposals.

    `beam`: nodes expanded per level and children of each (EAGLE-2's k).
    """

    def __init__(
        self,
        head: Eagle3Head,
        attention: AttentionBackend,
        blocks: BlockManager,
        fingerprint: str,
        *,
        beam: int,
        lease_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._head, self._attention, self._blocks = head, attention, blocks
        self._fingerprint = fingerprint
        self._beam, self._lease_s, self._clock = beam, lease_s, clock
        self._held: OrderedDict[SeqKey, _Held] = OrderedDict()  # the longest silent first
        self._width = head.embedding.shape[1]

    def open(self, message: Open) -> None:
        """A sequence of a target that the head was not loaded for stays unknown."""
        self._drop(message.key)
        if message.fingerprint == self._fingerprint:
            self._held[message.key] = _Held(self._clock())

    def close(self, message: Close) -> None:
        for key in message.keys:
            self._drop(key)

    def propose(self, message: Propose) -> Proposal:
        started = time.perf_counter()
        self._expire()
        growing: list[_Growth] = []
        unknown: list[SeqKey] = []
        bounds = zip(message.extends, message.max_nodes, message.max_depth, strict=True)
        for extend, max_nodes, max_depth in bounds:
            expanded = min(self._beam, max_nodes) * max(max_depth - 1, 0)
            held = self._admit(extend, expanded, busy={growth.extend.key for growth in growing})
            if held is None:
                unknown.append(extend.key)
            else:
                tree = GrowingTree(max_nodes, message.price)
                growing.append(_Growth(held, extend, max_depth if max_nodes else 0, tree))
        trees = self._grow(growing) if growing else ()
        return Proposal(tuple(trees), tuple(unknown), time.perf_counter() - started)

    def _grow(self, growing: list[_Growth]) -> list[DraftTree]:
        hidden = self._extend(growing)
        for place, growth in enumerate(growing):
            growth.hidden_row[ROOT] = place
        level = [(growth, [ROOT]) for growth in growing if growth.max_depth]
        depth = 1
        while level:
            self._offer(level, hidden)
            level = [
                (g, [n.place for n in g.frontier]) for g, _ in level if g.frontier and depth < g.max_depth
            ]
            if level:
                hidden = self._expand([growth for growth, _ in level], hidden, depth)
            depth += 1
        for growth in growing:
            self._blocks.trim(growth.held.block_table, growth.held.length)
        return [growth.tree.tree(growth.extend.key.seq_id, growth.extend.base_len) for growth in growing]

    def _offer(self, level: list[tuple[_Growth, list[int]]], hidden: Tensor) -> None:
        """Children of every node of the level, from its output's logits."""
        rows = [growth.hidden_row[node] for growth, nodes in level for node in nodes]
        logits = self._head.logits(hidden[rows] if len(rows) != len(hidden) else hidden)
        top = logits.topk(min(self._beam, logits.shape[1]), dim=-1)
        log_q = (top.values - logits.logsumexp(-1, keepdim=True)).cpu().numpy()
        token_ids = self._head.target_ids[top.indices].cpu().numpy()
        start = 0
        for growth, nodes in level:
            end = start + len(nodes)
            growth.frontier = growth.tree.offer(nodes, token_ids[start:end], log_q[start:end], self._beam)
            start = end

    def _expand(self, growing: list[_Growth], hidden: Tensor, depth: int) -> Tensor:
        """Feed each frontier node with its parent's output. Returns the outputs, in the frontier's order."""
        rows, sources = [], []
        for growth in growing:
            done = len(growth.parents)
            for node in growth.frontier:
                growth.parents.append(growth.row_of[node.parent])
                sources.append(growth.hidden_row[node.parent])
            position = growth.context + depth
            tokens = [node.token_id for node in growth.frontier]
            rows.append(
                _Rows(growth.held, tokens, [position] * len(tokens), growth.context, done, growth.parents)
            )
        outputs = self._forward(rows, hidden[sources])
        place = 0
        for growth in growing:
            first = len(growth.parents) - len(growth.frontier)
            growth.hidden_row = {}
            for offset, node in enumerate(growth.frontier):
                growth.row_of[node.place] = first + offset
                growth.hidden_row[node.place] = place
                place += 1
        return outputs

    def _extend(self, growing: list[_Growth]) -> Tensor:
        """Feed the committed pairs. Returns the last output of each sequence: [len(growing), d]."""
        outputs: list[Tensor] = []
        for chunk in _chunks(growing):
            rows = [
                _Rows(
                    growth.held,
                    growth.extend.token_ids[start:end].tolist(),
                    list(range(growth.extend.start + start, growth.extend.start + end)),
                    growth.extend.start + start,
                    0,
                    None,
                )
                for growth, start, end in chunk
            ]
            last = self._forward(rows, torch.cat([_features(g.extend)[start:end] for g, start, end in chunk]))
            ends = list(accumulate(len(r.token_ids) for r in rows))
            finished = [g.extend.start + end == g.extend.base_len - 1 for g, _, end in chunk]
            outputs += [last[e - 1] for e, done in zip(ends, finished, strict=True) if done]
        for growth in growing:
            growth.held.length = growth.extend.base_len - 1
        return torch.stack(outputs)

    def _forward(self, rows: Sequence[_Rows], hidden: Tensor) -> Tensor:
        batch = self._pack(rows)
        self._attention.begin(batch)
        return self._head.forward(torch.from_numpy(batch.token_ids.astype(np.int64)), hidden, self._attention)

    def _pack(self, rows: Sequence[_Rows]) -> Batch:
        counts = np.array([len(r.token_ids) for r in rows], np.int32)
        table = np.zeros((len(rows), max(len(r.held.block_table) for r in rows)), np.int32)
        for index, r in enumerate(rows):
            table[index, : len(r.held.block_table)] = r.held.block_table
        logical = [r.context + r.done + i for r in rows for i in range(len(r.token_ids))]
        block, offset = np.divmod(np.array(logical, np.int32), self._blocks.block_size)
        owner = np.repeat(np.arange(len(rows)), counts)
        trees = [[] if r.parents is None else r.parents for r in rows]
        return Batch(
            token_ids=_ints(t for r in rows for t in r.token_ids),
            positions=_ints(p for r in rows for p in r.positions),
            slots=(table[owner, block] * self._blocks.block_size + offset).astype(np.int32),
            parents=_ints([*(p for tree in trees for p in tree), 0]),
            row_start=_starts(counts.tolist()),
            num_new=counts,
            context=_ints(r.context for r in rows),
            is_chain=_ints(r.parents is None for r in rows),
            done=_ints(r.done for r in rows),
            tree_start=_starts([len(tree) for tree in trees]),
            block_table=table,
            logit_rows=_ints(()),
            logit_start=_ints(()),
        )

    def _admit(self, extend: Extend, tree_rows: int, busy: set[SeqKey]) -> _Held | None:
        """The sequence, with room for its new positions and tree; None: the verifier must open it again."""
        held = self._held.get(extend.key)
        if held is None:
            return None
        fits = held.length == extend.start and len(extend.token_ids) > 0 and extend.features is not None
        slots = extend.base_len - 1 + tree_rows
        if not fits or not self._make_room(held, slots, spare=busy | {extend.key}):
            self._drop(extend.key)
            return None
        held.heard_at = self._clock()
        self._held.move_to_end(extend.key)
        return held

    def _make_room(self, held: _Held, slots: int, spare: set[SeqKey]) -> bool:
        """Blocks for `slots`, at the cost of those that have been silent for longest."""
        while not self._blocks.grow(held.block_table, slots):
            silent = next((key for key in self._held if key not in spare), None)
            if silent is None:
                return False
            self._drop(silent)
        return True

    def _expire(self) -> None:
        limit = self._clock() - self._lease_s
        while self._held and next(iter(self._held.values())).heard_at < limit:
            self._drop(next(iter(self._held)))

    def _drop(self, key: SeqKey) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self._blocks.release(held.block_table)


class _Piece(NamedTuple):
    """Pairs start .. end - 1 of what a sequence is extended by."""

    growth: _Growth
    start: int
    end: int


def _chunks(growing: Iterable[_Growth]) -> Iterator[list[_Piece]]:
    """All pairs to feed, in order, in forwards of at most MAX_ROWS rows."""
    chunk: list[_Piece] = []
    room = MAX_ROWS
    for growth in growing:
        start, total = 0, len(growth.extend.token_ids)
        while start < total:
            end = min(total, start + room)
            chunk.append(_Piece(growth, start, end))
            room -= end - start
            start = end
            if room == 0:
                yield chunk
                chunk, room = [], MAX_ROWS
    if chunk:
        yield chunk


def _features(extend: Extend) -> Tensor:
    assert extend.features is not None
    return from_wire(extend.features)


def _ints(values: Iterable[int]) -> NDArray[np.int32]:
    return np.fromiter(values, np.int32)


def _starts(counts: list[int]) -> NDArray[np.int32]:
    return _ints(accumulate(counts[:-1], initial=0))
