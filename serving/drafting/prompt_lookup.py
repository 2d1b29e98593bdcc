"""Drafting by prompt lookup: what followed when the text's end occurred before, as a tree.

After prompt lookup decoding (Saxena, 2023), with all recent occurrences merged in a trie instead of one
copied chain, and with confidences learned from what came true instead of none. Needs no model: numpy only.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from serving.config import SpeculationConfig
from serving.drafting.base import Drafter
from serving.drafting.hit_rates import HitRates
from serving.drafting.messages import Close, Extend, Open, Proposal, Propose, SeqKey
from serving.drafting.suffix_index import SuffixIndex
from serving.drafting.trie import Limits, Trie
from serving.spec.calibration import CalibrationMaps
from serving.spec.tree import DraftTree


@dataclass(slots=True)
class _Held:
    """An open sequence. `proposed` is the last proposal, until the next Extend says what came of it."""

    index: SuffixIndex
    heard_at: float
    sampled: bool
    proposed: Trie | None = None


class PromptLookupDrafter(Drafter):
    """Looks up each sequence in its own text. Hit rates are shared by all sequences and outlive them."""

    def __init__(self, config: SpeculationConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._clock = config, clock
        self._rates = HitRates()
        self._held: OrderedDict[SeqKey, _Held] = OrderedDict()  # the longest silent first

    def open(self, message: Open) -> None:
        """Any fingerprint will do: token ids are all that is looked at."""
        index = SuffixIndex(self._config.prompt_lookup_min, self._config.prompt_lookup_max)
        self._held[message.key] = _Held(index, self._clock(), message.temperature > 0.0)
        self._held.move_to_end(message.key)

    def propose(self, message: Propose) -> Proposal:
        started = time.perf_counter()
        now = self._clock()
        self._expire(now)
        trees: list[DraftTree] = []
        unknown: list[SeqKey] = []
        bounds = zip(message.extends, message.max_nodes, message.max_depth, strict=True)
        for extend, max_nodes, max_depth in bounds:
            held = self._held.get(extend.key)
            if held is None or not self._extend(held, extend):
                self._held.pop(extend.key, None)
                unknown.append(extend.key)
                continue
            held.heard_at = now
            self._held.move_to_end(extend.key)
            limits = Limits(max_nodes, max_depth, message.price)
            trees.append(self._draft(held, extend.key.seq_id, limits, message.calibration))
        return Proposal(tuple(trees), tuple(unknown), time.perf_counter() - started)

    def close(self, message: Close) -> None:
        for key in message.keys:
            self._held.pop(key, None)

    def _extend(self, held: _Held, extend: Extend) -> bool:
        """Append the new tokens and learn from them. False if they do not follow what is held."""
        known = len(held.index.tokens)
        if extend.start != max(known - 1, 0):
            return False
        if known == 0 and extend.first_token is not None:
            held.index.extend([extend.first_token])
        committed = extend.token_ids.tolist()
        if held.proposed is not None:
            held.proposed.learn(committed)
            held.proposed = None
        held.index.extend(committed)
        return True

    def _draft(self, held: _Held, seq_id: int, limits: Limits, calibration: CalibrationMaps) -> DraftTree:
        if limits.max_nodes == 0:
            return DraftTree.empty(seq_id, len(held.index.tokens))
        index = held.index
        held.proposed = Trie(index.tokens, index.matches(), self._rates, calibration, held.sampled)
        return held.proposed.grow(seq_id, limits)

    def _expire(self, now: float) -> None:
        while self._held:
            key, oldest = next(iter(self._held.items()))
            if now - oldest.heard_at <= self._config.lease_s:
                return
            del self._held[key]
