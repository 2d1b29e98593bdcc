"""Packing conversations into one batch of draft chains.

A conversation of n tokens with a prompt of p gives *rows* t = 0 .. n-3, each the pair (feature_t,
token_{t+1}) as the drafter sees it, and *chains*: one for each row t = p-1 .. n-3, which starts there and
drafts on. At step i the chain of row t is fed token_{t+1+i} and predicts token_{t+2+i}. Rows before p-1 only
lend keys and values: no draft ever starts in the prompt, so nothing is computed for them beyond that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.data import Conversation
from training.target import Captured


class Span(NamedTuple):
    """One conversation within the packed tokens, rows and chains; chains start at its row `first`."""

    token_start: int
    row_start: int
    num_rows: int
    chain_start: int
    num_chains: int

    @property
    def first(self) -> int:
        return self.num_rows - self.num_chains

    @property
    def rows(self) -> slice:
        return slice(self.row_start, self.row_start + self.num_rows)

    @property
    def chains(self) -> slice:
        return slice(self.chain_start, self.chain_start + self.num_chains)


@dataclass(frozen=True, slots=True)
class Batch:
    """T rows and R chains of several conversations, S steps deep.

    streams: bf16 [T, streams, hidden], what enters the captured layers, and the last layer's output.
    tokens: [N], each conversation's token_1 .. token_{n-1}.
    row_tokens: [T], where in `tokens` each row's token_{t+1} is.   positions: [T], t within the conversation.
    chain_rows: [R], the packed row that each chain starts at.
    chain_tokens: [S, R], where token_{t+1+i} is (past the end: the last token; masked by `valid`).
    final: bf16 [R, hidden], the last layer's output at t+1, from which the target predicts token_{t+2}.
    labels: [R], token_{t+2}.
    best: [R], the token that the target likes best there: token_{t+2} itself in greedy text.
    valid: bool [S, R]: step i of chain r is compared with `final`, `labels` and `best` of chain r + i, where
    that is in the same conversation.
    """

    spans: tuple[Span, ...]
    streams: Tensor
    tokens: Tensor
    row_tokens: Tensor
    positions: Tensor
    chain_rows: Tensor
    chain_tokens: Tensor
    final: Tensor
    labels: Tensor
    best: Tensor
    valid: Tensor

    @property
    def num_chains(self) -> int:
        return len(self.chain_rows)

    @property
    def steps(self) -> int:
        return len(self.valid)

    def to(self, device: torch.device) -> Batch:
        moved = {
            name: getattr(self, name).to(device) for name in self.__dataclass_fields__ if name != "spans"
        }
        return Batch(spans=self.spans, **moved)


class Example(NamedTuple):
    conversation: Conversation
    captured: Captured


def num_chains(conversation: Conversation) -> int:
    return max(conversation.num_response - 1, 0)


def pack(examples: Sequence[Example], steps: int) -> Batch:
    """Conversations must have at least one chain."""
    spans = _spans([example.conversation for example in examples])
    return Batch(
        spans=spans,
        streams=torch.cat([e.captured.streams[:-2] for e in examples]),
        tokens=_ints([e.conversation.token_ids[1:] for e in examples]),
        row_tokens=_ints([np.arange(span.num_rows) + span.token_start for span in spans]),
        positions=_ints([np.arange(span.num_rows) for span in spans]),
        chain_rows=_ints([np.arange(span.num_chains) + span.row_start + span.first for span in spans]),
        chain_tokens=_ints([_chain_tokens(span, steps) for span in spans]),
        final=torch.cat([e.captured.streams[e.conversation.prompt_len : -1, -1] for e in examples]),
        labels=_ints([e.conversation.token_ids[e.conversation.prompt_len + 1 :] for e in examples]),
        best=torch.cat([e.captured.best[e.conversation.prompt_len : -1] for e in examples]).long(),
        valid=torch.from_numpy(np.concatenate([_valid(span, steps) for span in spans], axis=-1)),
    )


def _spans(conversations: Sequence[Conversation]) -> tuple[Span, ...]:
    spans, tokens, rows, chains = [], 0, 0, 0
    for conversation in conversations:
        span = Span(tokens, rows, len(conversation.token_ids) - 2, chains, num_chains(conversation))
        assert span.num_chains >= 1
        spans.append(span)
        tokens, rows, chains = tokens + span.num_rows + 1, rows + span.num_rows, chains + span.num_chains
    return tuple(spans)


def _ints(parts: list[NDArray[np.int32]] | list[NDArray[np.int64]]) -> Tensor:
    return torch.from_numpy(np.concatenate(parts, axis=-1).astype(np.int64))


def _chain_tokens(span: Span, steps: int) -> NDArray[np.int64]:
    """[S, R]"""
    local = span.first + _steps_and_chains(span.num_chains, steps)
    return span.token_start + np.minimum(local, span.num_rows)


def _valid(span: Span, steps: int) -> NDArray[np.bool_]:
    """[S, R]"""
    return _steps_and_chains(span.num_chains, steps) < span.num_chains


def _steps_and_chains(chains: int, steps: int) -> NDArray[np.int64]:
    """[S, R]: step + chain."""
    return np.arange(steps)[:, None] + np.arange(chains)
