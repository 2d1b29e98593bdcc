"""Drafting with a network: feed it the committed text, then grow one tree per sequence, batched."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from serving.drafting.base import Drafter
from serving.drafting.messages import Close, Extend, Open, Proposal, Propose, SeqKey
from serving.engine.attention.base import AttentionBackend
from serving.engine.draft_network import DraftNetwork, Fed, Feeding
from serving.engine.draft_rows import DraftRows, pack_rows
from serving.engine.draft_sequences import DraftSequences, Held
from serving.models.linear import Draws
from serving.spec.calibration import CalibrationMaps, Method, origin_of
from serving.spec.growth import Grower, Growth, Node
from serving.spec.noise import noise_key
from serving.spec.tree import ROOT, DraftTree

MAX_ROWS = 512  # of one forward: a long prompt is fed in chunks


@dataclass(slots=True)
class _Growing:
    """One sequence's tree while it grows. Tree row 0 is the last fed row; rows follow as nodes expand.

    row_of: tree row of each expanded node; hidden_row: where its output is in the last forward's.
    """

    key: SeqKey
    base_len: int
    held: Held
    fed: Fed
    max_depth: int
    tree: Grower
    parents: list[int] = field(default_factory=lambda: [-1])
    row_of: dict[int, int] = field(default_factory=lambda: {ROOT: 0})
    hidden_row: dict[int, int] = field(default_factory=dict)
    frontier: list[Node] = field(default_factory=list)

    @property
    def origin(self) -> int:
        """Of its confidences."""
        return origin_of(Method.NETWORK, self.held.opened.temperature > 0.0)

    @property
    def context(self) -> int:
        """Positions before tree row 0."""
        return self.fed.end - 1

    def rows(self, start: int, end: int) -> DraftRows:
        """Rows start .. end - 1 of what is fed."""
        first, last = self.fed.start + start, self.fed.start + end
        tokens = self.fed.token_ids[start:end].tolist()
        return DraftRows(self.held.block_table, tokens, list(range(first, last)), first, 0, None)

    def expand(self, depth: int) -> DraftRows:
        """The frontier as tree rows."""
        done = len(self.parents)
        self.parents += [self.row_of[node.parent] for node in self.frontier]
        tokens = [node.token_id for node in self.frontier]
        positions = [self.context + depth] * len(tokens)
        return DraftRows(self.held.block_table, tokens, positions, self.context, done, self.parents)

    def expanded(self, first_hidden: int) -> None:
        """The frontier's outputs are in the last forward's from `first_hidden` on."""
        first_row = len(self.parents) - len(self.frontier)
        self.row_of |= {node.place: first_row + i for i, node in enumerate(self.frontier)}
        self.hidden_row = {node.place: first_hidden + i for i, node in enumerate(self.frontier)}


class HeadDrafter(Drafter):
    """A head, or a small model, with its own paged cache; only committed positions persist between proposals.

    fingerprint: of what it was loaded for; sequences of another target stay unknown.
    max_positions: that attention can rotate; a sequence that would go past them is unknown too.
    spread: sampled tokens are ranked with the noise that the target will draw with (see Draws); None: not.
    """

    def __init__(
        self,
        network: DraftNetwork,
        feeding: Feeding,
        growth: Growth,
        attention: AttentionBackend,
        sequences: DraftSequences,
        fingerprint: str,
        max_positions: int,
        spread: float | None,
    ) -> None:
        self._network, self._feeding, self._growth = network, feeding, growth
        self._attention, self._sequences, self._fingerprint = attention, sequences, fingerprint
        self._max_positions, self._device = max_positions, network.target_ids.device
        self._spread = spread

    def open(self, message: Open) -> None:
        self._sequences.drop(message.key)
        if message.fingerprint == self._fingerprint:
            self._sequences.open(message)

    def close(self, message: Close) -> None:
        for key in message.keys:
            self._sequences.drop(key)

    @torch.inference_mode()
    def propose(self, message: Propose) -> Proposal:
        started = time.perf_counter()
        self._sequences.expire()
        growing: list[_Growing] = []
        unknown: list[SeqKey] = []
        bounds = zip(message.extends, message.max_nodes, message.max_depth, strict=True)
        for extend, max_nodes, max_depth in bounds:
            tree = self._growth.start(max_nodes, message.price)
            fed, held = self._admit(extend, max_nodes, max_depth, busy={each.key for each in growing})
            if fed is None or held is None:
                unknown.append(extend.key)
            else:
                depth = max_depth if max_nodes else 0
                growing.append(_Growing(extend.key, extend.base_len, held, fed, depth, tree))
        trees = self._grow(growing, message.calibration) if growing else ()
        return Proposal(tuple(trees), tuple(unknown), time.perf_counter() - started)

    def _admit(self, extend: Extend, max_nodes: int, max_depth: int, busy: set[SeqKey]) -> _Admitted:
        """What to feed to which sequence, with room for its new positions and a tree."""
        fed = self._feeding(extend)
        if fed is None or not len(fed.token_ids) or fed.end + max_depth > self._max_positions:
            self._sequences.drop(extend.key)
            return _Admitted(None, None)
        slots = fed.end + self._growth.expanded(max_nodes, max_depth)
        return _Admitted(fed, self._sequences.admit(extend.key, fed.start, slots, busy))

    def _grow(self, growing: list[_Growing], calibration: CalibrationMaps) -> list[DraftTree]:
        hidden = self._extend(growing)
        for place, each in enumerate(growing):
            each.hidden_row[ROOT] = place
        level = [(each, [ROOT]) for each in growing if each.max_depth]
        depth = 1
        while level:
            self._offer(level, hidden, depth, calibration)
            level = [
                (g, [n.place for n in g.frontier]) for g, _ in level if g.frontier and depth < g.max_depth
            ]
            if level:
                hidden = self._expand([each for each, _ in level], hidden, depth)
            depth += 1
        for each in growing:
            self._sequences.trim(each.held)
        return [each.tree.tree(each.key.seq_id, each.base_len, each.origin) for each in growing]

    def _offer(
        self,
        level: list[tuple[_Growing, list[int]]],
        hidden: Tensor,
        depth: int,
        calibration: CalibrationMaps,
    ) -> None:
        """Children, at `depth`, of every node of the level, from its output."""
        sources = [each.hidden_row[node] for each, nodes in level for node in nodes]
        network = self._network
        logits = network.logits(_chosen(hidden, sources))
        draws = None if self._spread is None else _draws(level, depth, self._spread)
        if draws is not None:
            network.ops.couple(logits, network.target_ids, draws)
        top = network.ops.likeliest(logits, self._growth.width)
        raw = top.log_probs.cpu().numpy()
        origins = np.repeat([each.origin for each, _ in level], [len(nodes) for _, nodes in level])
        log_q = calibration.apply(raw, origins, depth)
        token_ids = network.target_ids[top.ids].cpu().numpy()
        start = 0
        for each, nodes in level:
            end = start + len(nodes)
            rows = slice(start, end)
            each.frontier = each.tree.offer(nodes, token_ids[rows], log_q[rows], raw[rows])
            start = end

    def _expand(self, growing: list[_Growing], hidden: Tensor, depth: int) -> Tensor:
        """Feed each frontier node with its parent's output. Returns the outputs, in the frontier's order."""
        sources = [each.hidden_row[node.parent] for each in growing for node in each.frontier]
        outputs = self._forward([each.expand(depth) for each in growing], _chosen(hidden, sources))
        for each, first in zip(growing, _starts(len(each.frontier) for each in growing), strict=False):
            each.expanded(first)
        return outputs

    def _extend(self, growing: list[_Growing]) -> Tensor:
        """Feed the committed rows. Returns the last output of each sequence: [len(growing), d]."""
        outputs: list[Tensor] = []
        for chunk in _chunks(growing):
            hidden = torch.cat([each.fed.hidden[start:end] for each, start, end in chunk])
            out = self._forward([each.rows(start, end) for each, start, end in chunk], hidden)
            for (each, _, end), past in zip(chunk, accumulate(e - s for _, s, e in chunk), strict=True):
                if end == len(each.fed.token_ids):
                    outputs.append(out[past - 1])
        for each in growing:
            each.held.length = each.fed.end
        return torch.stack(outputs)

    def _forward(self, rows: Sequence[DraftRows], hidden: Tensor) -> Tensor:
        batch = pack_rows(rows, self._sequences.block_size)
        self._attention.begin(batch)
        token_ids = torch.from_numpy(batch.token_ids.astype(np.int64)).to(self._device)
        return self._network.forward(token_ids, hidden.to(self._device), self._attention)


class _Admitted(NamedTuple):
    """None: the verifier must open the sequence again."""

    fed: Fed | None
    held: Held | None


class _Piece(NamedTuple):
    """Rows start .. end - 1 of what a sequence is fed."""

    growing: _Growing
    start: int
    end: int


def _chunks(growing: Iterable[_Growing]) -> Iterator[list[_Piece]]:
    """All rows to feed, in order, in forwards of at most MAX_ROWS rows."""
    chunk: list[_Piece] = []
    room = MAX_ROWS
    for each in growing:
        start, total = 0, len(each.fed.token_ids)
        while start < total:
            end = min(total, start + room)
            chunk.append(_Piece(each, start, end))
            room -= end - start
            start = end
            if room == 0:
                yield chunk
                chunk, room = [], MAX_ROWS
    if chunk:
        yield chunk


def _draws(level: list[tuple[_Growing, list[int]]], depth: int, spread: float) -> Draws | None:
    """What the target will draw the nodes' children with; None where all of them are greedy."""
    opened = [each.held.opened for each, _ in level]
    if not any(message.temperature for message in opened):
        return None
    counts = [len(nodes) for _, nodes in level]
    keys = [
        noise_key(message.seed, message.choice_index, each.base_len + depth - 1)
        for message, (each, _) in zip(opened, level, strict=True)
    ]
    temperatures = np.array([message.temperature for message in opened], np.float32)
    keys_by_row = np.repeat(np.array(keys, np.uint32), counts, axis=0)
    return Draws(keys_by_row, np.repeat(temperatures, counts), spread)


def _chosen(hidden: Tensor, rows: list[int]) -> Tensor:
    """hidden[rows], without a copy where that is all of it."""
    return hidden if rows == list(range(len(hidden))) else hidden[rows]


def _starts(counts: Iterable[int]) -> Iterator[int]:
    """Running totals before each count."""
    return accumulate(counts, initial=0)
