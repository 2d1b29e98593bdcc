"""Drafters that make verification hard: they know the answer and mix it with every mistake."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from serving.drafting.base import DraftChannel
from serving.drafting.messages import Close, Extend, Open, Proposal, Propose, SeqKey
from serving.spec.tree import ROOT, DraftTree


@dataclass
class _Held:
    """What a drafter knows of an open sequence, and the last tree it drew."""

    tokens: list[int] = field(default_factory=list)
    tree: DraftTree | None = None


class Adversary(DraftChannel):
    """Drafts around texts that it knows, so that long paths are accepted from among wrong siblings, wrong
    turns and wrong continuations of right words.

    texts: prompt and plain output of the sequences to come. A sequence whose text it does not know gets
    noise. mischief: share of answers that are late, stale, too large, for nobody, or a plea to open again.
    Asserts that the step loop keeps the protocol. Counts in `moved` the accepted nodes that did not lie
    where their position belongs.
    """

    def __init__(
        self, texts: Sequence[tuple[int, ...]], seed: int, vocab: int, mischief: float = 0.0
    ) -> None:
        self.texts = texts
        self.held: dict[SeqKey, _Held] = {}
        self.moved = 0
        self._rng = np.random.default_rng(seed)
        self._vocab, self._mischief = vocab, mischief
        self._answers: deque[Proposal] = deque()

    def submit(self, opens: Sequence[Open], propose: Propose) -> None:
        assert len(self._answers) < 2, "two halves at most"
        for message in opens:
            self.held[message.key] = _Held()
        trees, unknown = [], []
        for extend, nodes, depth in zip(propose.extends, propose.max_nodes, propose.max_depth, strict=True):
            assert 1 <= depth <= nodes
            self._extend(extend)
            if self._rng.random() >= self._mischief:
                trees.append(self._draw(extend.key, nodes, depth))
            elif self._rng.random() < 0.3:
                del self.held[extend.key]
                unknown.append(extend.key)
            else:
                trees += self._misbehave(extend.key, nodes)
        self._answers.append(Proposal(tuple(trees), tuple(unknown), 0.0))

    def collect(self) -> Proposal:
        assert self._answers, "nothing was asked"
        return self._answers.popleft()

    def close(self, message: Close) -> None:
        for key in message.keys:
            self.held.pop(key, None)

    def _extend(self, extend: Extend) -> None:
        held = self.held[extend.key]
        assert extend.start == max(len(held.tokens) - 1, 0), "not where the drafter stands"
        if extend.first_token is not None:
            held.tokens.append(extend.first_token)
        committed = extend.token_ids.tolist()
        if held.tree is not None:
            self.moved += sum(place != node for place, node in enumerate(_followed(held.tree, committed)))
        held.tokens += committed
        assert len(held.tokens) == extend.base_len

    def _draw(self, key: SeqKey, max_nodes: int, max_depth: int) -> DraftTree:
        held = self.held[key]
        held.tree = self._tree(key.seq_id, held.tokens, max_nodes, max_depth)
        return held.tree

    def _tree(self, seq_id: int, tokens: list[int], max_nodes: int, max_depth: int) -> DraftTree:
        answer = self._answer_to(tokens)
        parents: list[int] = []
        drafted: list[int] = []
        depths: list[int] = []
        right = [ROOT]  # nodes along the answer
        for _ in range(2 * max_nodes):
            if self._rng.random() < 0.6 and len(right) <= len(answer):
                parent, token = right[-1], answer[len(right) - 1]
            else:
                parent = int(self._rng.integers(ROOT, len(parents)))
                token = int(self._rng.integers(self._vocab))
            depth = 1 if parent == ROOT else depths[parent] + 1
            if (parent, token) in zip(parents, drafted, strict=True) or depth > max_depth:
                continue
            if parent == right[-1] and answer[len(right) - 1 : len(right)] == (token,):
                right.append(len(parents))
            parents.append(parent)
            drafted.append(token)
            depths.append(depth)
        confidence = -self._rng.exponential(0.3, len(parents))
        return DraftTree.build(seq_id, len(tokens), drafted, parents, confidence)[:max_nodes]

    def _answer_to(self, tokens: list[int]) -> tuple[int, ...]:
        known = tuple(tokens)
        return next((text[len(known) :] for text in self.texts if text[: len(known)] == known), ())

    def _misbehave(self, key: SeqKey, max_nodes: int) -> list[DraftTree]:
        """Nothing at all, or trees that must not be verified, or not whole."""
        tokens = self.held[key].tokens
        stranger = self._tree(key.seq_id + 1000, tokens, max_nodes, max_nodes)
        stale = self._tree(key.seq_id, tokens[:-1] or tokens * 2, max_nodes, max_nodes)
        large = self._tree(key.seq_id, tokens, 3 * max_nodes + 20, 3 * max_nodes + 20)
        alien = DraftTree.build(key.seq_id, len(tokens), [0, 2**31 - 1, -1], [-1, 0, -1], [-0.1] * 3)
        choices: list[list[DraftTree]] = [[], [stale], [large], [alien], [stranger], [stranger, large, stale]]
        return choices[int(self._rng.integers(len(choices)))]


class Oracle(Adversary):
    """Drafts nothing but the answer, as a chain."""

    def __init__(self, texts: Sequence[tuple[int, ...]]) -> None:
        super().__init__(texts, seed=0, vocab=1)

    def _tree(self, seq_id: int, tokens: list[int], max_nodes: int, max_depth: int) -> DraftTree:
        chain = self._answer_to(tokens)[: min(max_nodes, max_depth)]
        return DraftTree.build(
            seq_id, len(tokens), chain, range(ROOT, len(chain) - 1), np.full(len(chain), -0.1)
        )


def _followed(tree: DraftTree, committed: list[int]) -> list[int]:
    """The nodes of `tree` that came true. The last token committed is never a draft."""
    edges, path, node = tree.edges(), [], ROOT
    for token in committed[:-1]:
        child = edges.get((node, token))
        if child is None:
            break
        path.append(node := child)
    return path
