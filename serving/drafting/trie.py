"""Continuations of earlier occurrences, merged in a trie and grown where they are worth most."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from serving.drafting.hit_rates import HitRates, Standing
from serving.drafting.suffix_index import Match
from serving.spec.calibration import IDENTITY, CalibrationMaps, Method, exclusive, origin_of
from serving.spec.tree import ROOT, DraftTree


@dataclass(slots=True)
class Node:
    """A drafted token, or the root. `matches`: the occurrences that continue through it, longest match first.

    log_confidence, log_value: log of the probability that it is accepted after its parent, and that the whole
    path down to it is. raw: of what log_confidence was calibrated from.
    class_id: the class of HitRates that judged it.
    """

    token: int
    depth: int
    matches: list[Match]
    class_id: int = -1
    raw: float = 0.0
    log_confidence: float = 0.0
    log_value: float = 0.0
    children: dict[int, Node] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Limits:
    """`price`: the least path value a node must have."""

    max_nodes: int
    max_depth: int
    price: float

    @property
    def least_log_value(self) -> float:
        return math.log(self.price) if self.price > 0.0 else -math.inf


class _Candidate(NamedTuple):
    """A node that may be drafted next: they compare by (-V, depth, ...), the order of a DraftTree.

    parent: index of its parent among the drafted nodes. rank: place among its siblings.
    """

    cost: float
    depth: int
    parent: int
    rank: int
    node: Node


class Trie:
    """Candidates for what follows `tokens`. Every node that was drafted has its children, drafted or not."""

    def __init__(
        self,
        tokens: list[int],
        matches: list[Match],
        rates: HitRates,
        calibration: CalibrationMaps = IDENTITY,
        sampled: bool = False,
    ) -> None:
        self._tokens, self._rates = tokens, rates
        self._origin = origin_of(Method.LOOKUP, sampled)
        self._calibrated = calibration.curve(self._origin)
        self._base_len = len(tokens)
        self._root = Node(tokens[-1], 0, matches)

    def grow(self, seq_id: int, limits: Limits) -> DraftTree:
        """The most valuable nodes within the limits, found best first: no other node is expanded."""
        drafted: list[Node] = []
        parents: list[int] = []
        queue: list[_Candidate] = []
        self._offer_children(queue, self._root, ROOT, limits)
        while queue and len(drafted) < limits.max_nodes:
            best = heapq.heappop(queue)
            drafted.append(best.node)
            parents.append(best.parent)
            if best.depth < limits.max_depth:
                self._offer_children(queue, best.node, len(drafted) - 1, limits)
        return DraftTree(
            seq_id,
            self._base_len,
            np.array([node.token for node in drafted], np.int32),
            np.array(parents, np.int32),
            np.array([node.log_confidence for node in drafted], np.float32),
            np.array([node.raw for node in drafted], np.float32),
            np.full(len(drafted), self._origin, np.uint8),
        )

    def learn(self, committed: list[int]) -> None:
        """Tell the rates which candidates were right, along the path that came true."""
        node = self._root
        for token in committed:
            for child in node.children.values():
                self._rates.observe(child.class_id, child.token == token)
            if token not in node.children:
                return
            node = node.children[token]

    def _offer_children(self, queue: list[_Candidate], node: Node, index: int, limits: Limits) -> None:
        self._expand(node)
        for rank, child in enumerate(node.children.values()):
            if child.log_value >= limits.least_log_value:
                heapq.heappush(queue, _Candidate(-child.log_value, child.depth, index, rank, child))

    def _expand(self, node: Node) -> None:
        branches = self._branches(node)
        classes = [
            self._rates.class_of(standing, branch[0].length + node.depth)
            for standing, branch in zip(_standings(branches), branches, strict=True)
        ]
        rates = [self._rates.rate(class_id) for class_id in classes]
        scale = 1.0 / max(1.0, sum(rates))  # siblings exclude each other
        raws = [rate * scale for rate in rates]
        likely = exclusive([self._calibrated(raw, node.depth + 1) for raw in raws])
        for branch, class_id, raw, value in zip(branches, classes, raws, likely, strict=True):
            token = self._tokens[branch[0].next + node.depth]
            log = float(np.float32(math.log(value)))  # as it travels, so that ties stay ties
            node.children[token] = Node(
                token, node.depth + 1, branch, class_id, math.log(raw), log, node.log_value + log
            )

    def _branches(self, node: Node) -> list[list[Match]]:
        """The occurrences that go on after `node`, by the token that follows; leader first."""
        tokens, depth, end = self._tokens, node.depth, self._base_len
        by_token: dict[int, list[Match]] = {}
        for match in node.matches:
            place = match.next + depth
            if place < end:
                by_token.setdefault(tokens[place], []).append(match)
        return sorted(by_token.values(), key=lambda branch: (-branch[0].length, -len(branch)))


def _standings(branches: list[list[Match]]) -> list[Standing]:
    """Standing of each branch; branches are in order of longest match, votes, recency."""
    if len(branches) < 2:
        return [_alone(len(branch)) for branch in branches]
    leader = branches[0]
    longest = leader[0].length
    wins_votes = 2 * len(leader) > sum(map(len, branches))
    if longest > branches[1][0].length:
        first = Standing.LEADS_CLEARLY if wins_votes else Standing.LEADS_BY_LENGTH
    else:
        first = Standing.LEADS_BY_VOTES if wins_votes else Standing.LEADS_BARELY
    return [first, *(_following(rank, branch, longest) for rank, branch in enumerate(branches[1:], 1))]


def _alone(votes: int) -> Standing:
    if votes == 1:
        return Standing.ALONE_ONCE
    return Standing.ALONE_TWICE if votes < 4 else Standing.ALONE_OFTEN


def _following(rank: int, branch: list[Match], longest: int) -> Standing:
    if branch[0].length < longest:
        return Standing.SHORTER
    return Standing.SECOND if rank == 1 else Standing.BEHIND
