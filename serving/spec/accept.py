"""Accepting draft tokens: sample the target's token at a node, then follow the child that matches it.

The target chooses exactly as it would in plain decoding, so what is emitted is what plain decoding emits. For
distinct, deterministically drafted siblings a child is accepted with the probability of EAGLE-2's rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from serving.spec.tree import ROOT, DraftTree
from serving.types import FinishReason

NO_TOKEN = -1
"""What a chooser answers for a row of logits that cannot be sampled from."""


class Visit(NamedTuple):
    """A row of the target's logits that the walk needs.

    sequence: index in the batch. node: index in its tree; ROOT is the row that predicts the first level.
    """

    sequence: int
    node: int


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """What one verification committed for one sequence.

    accepted: nodes on the accepted path, from the root down.
    token_ids: their tokens, then the bonus token, the target's own choice where the path ended.
    failed: the row after the path had no usable logits (case S11); there is no bonus token then.
    """

    accepted: tuple[int, ...]
    token_ids: tuple[int, ...]
    failed: bool

    def __post_init__(self) -> None:
        assert len(self.token_ids) == len(self.accepted) + (not self.failed)


def walk(trees: Sequence[DraftTree], choose: Callable[[list[Visit]], Sequence[int]]) -> list[VerifyResult]:
    """Walk all trees of a batch level by level, so that only visited rows are ever sampled.

    `choose` returns the target's token of each visit, or NO_TOKEN where the row of logits is not finite: that
    sequence has failed and the others go on.
    """
    edges = [tree.edges() for tree in trees]
    accepted: list[list[int]] = [[] for _ in trees]
    tokens: list[list[int]] = [[] for _ in trees]
    frontier = [Visit(sequence, ROOT) for sequence in range(len(trees))]
    while frontier:
        deeper = []
        for (sequence, node), token in zip(frontier, choose(frontier), strict=True):
            if token == NO_TOKEN:
                continue
            tokens[sequence].append(token)
            child = edges[sequence].get((node, token))
            if child is not None:
                accepted[sequence].append(child)
                deeper.append(Visit(sequence, child))
        frontier = deeper
    return [
        VerifyResult(tuple(path), tuple(emitted), failed=len(emitted) == len(path))
        for path, emitted in zip(accepted, tokens, strict=True)
    ]


class Cut(NamedTuple):
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | None


def cut(token_ids: Sequence[int], stop_token_ids: Set[int], room: int) -> Cut:
    """The tokens that may be emitted of those just committed, and whether they end the request.

    The first stop token is the last that is kept. `room` is how many tokens the request may still emit; a
    stop token past it does not count.
    """
    assert room >= 1
    for index, token in enumerate(token_ids[:room]):
        if token in stop_token_ids:
            return Cut(tuple(token_ids[: index + 1]), FinishReason.STOP)
    return Cut(tuple(token_ids[:room]), FinishReason.LENGTH if len(token_ids) >= room else None)
