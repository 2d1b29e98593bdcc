"""How often the target would accept a head's drafts, from teacher-forced text alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from training.batch import Batch, Example, num_chains, pack
from training.capture import Source
from training.data import Conversation
from training.head import Head
from training.objective import Borrowed
from training.plan import group
from training.unroll import unroll
from training.vocabulary import DraftVocabulary

LOGIT_ROWS = 256
BATCH_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class Acceptance:
    """accepted, positions: [S] counts. confidence: float32 [N], the head's probability of its first guess at
    step 0, and whether that was right: bool [N]."""

    accepted: NDArray[np.int64]
    positions: NDArray[np.int64]
    confidence: NDArray[np.float32]
    right: NDArray[np.bool_]

    @property
    def rates(self) -> list[float]:
        """n-alpha for n = 0 .. S-1: how often the head's best guess is the text's next token when its input
        holds n hidden states of its own. A token outside the draft vocabulary counts as missed.
        """
        return [float(rate) for rate in self.accepted / np.maximum(self.positions, 1)]


class Guesses(NamedTuple):
    """right: bool [S, R], whether each chain's best guess at each step is the text's next token.

    confidence: float32 [R], the probability of the guess at step 0.
    """

    right: Tensor
    confidence: Tensor


@dataclass(frozen=True, slots=True)
class Judge:
    """Everything that measuring a head takes besides the text. output: [draft, d] in the compute dtype."""

    head: Head
    borrowed: Borrowed
    vocabulary: DraftVocabulary
    output: Tensor

    @classmethod
    def of(cls, head: Head, borrowed: Borrowed, vocabulary: DraftVocabulary) -> Judge:
        return cls(
            head, borrowed, vocabulary, head.output_weight(borrowed.output).detach().to(borrowed.dtype)
        )

    def measure(self, conversations: Sequence[Conversation], source: Source, steps: int) -> Acceptance:
        """Over the greedy conversations; S = steps."""
        usable = [c for c in conversations if c.temperature == 0 and num_chains(c) >= 1]
        lengths = [len(c.token_ids) for c in usable]
        parts = []
        for indices in group(lengths, BATCH_TOKENS):
            examples = [Example(usable[i], source.captured(usable[i])) for i in indices]
            parts.append(self._measure(pack(examples, steps).to(self.output.device)))
        return _sum(parts, steps)

    @torch.no_grad()
    def guesses(self, batch: Batch) -> Guesses:
        steps = len(batch.valid)
        hidden = unroll(self.head, batch, self.borrowed.embeddings, self.borrowed.dtype)
        right, confidence = torch.zeros_like(batch.valid), torch.zeros(0)
        for step in range(steps):
            guess = self._guess(hidden[step])
            compared = batch.num_chains - step
            right[step, :compared] = guess.token[:compared] == batch.labels[step:]
            confidence = guess.confidence if step == 0 else confidence
        return Guesses(right & batch.valid, confidence)

    def _measure(self, batch: Batch) -> Acceptance:
        guesses = self.guesses(batch)
        return Acceptance(
            guesses.right.sum(-1).cpu().numpy(),
            batch.valid.sum(-1).cpu().numpy(),
            guesses.confidence.cpu().numpy(),
            guesses.right[0].cpu().numpy(),
        )

    def _guess(self, hidden: Tensor) -> _Guess:
        """hidden: float32 [R, d]."""
        tokens, confidences = [], []
        for rows in self.head.head_input(hidden).to(self.output.dtype).split(LOGIT_ROWS):
            best = F.linear(rows, self.output).softmax(-1, dtype=torch.float32).max(-1)
            tokens.append(best.indices)
            confidences.append(best.values)
        ids = self.vocabulary.token_ids.to(hidden.device)
        return _Guess(ids[torch.cat(tokens)], torch.cat(confidences))


@dataclass(frozen=True, slots=True)
class _Guess:
    """token: [R], ids of the target's vocabulary. confidence: float32 [R]."""

    token: Tensor
    confidence: Tensor


def _sum(parts: Iterable[Acceptance], steps: int) -> Acceptance:
    parts = list(parts)
    if not parts:
        zeros = np.zeros(steps, np.int64)
        return Acceptance(zeros, zeros, np.zeros(0, np.float32), np.zeros(0, np.bool_))
    return Acceptance(
        np.sum([part.accepted for part in parts], axis=0),
        np.sum([part.positions for part in parts], axis=0),
        np.concatenate([part.confidence for part in parts]),
        np.concatenate([part.right for part in parts]),
    )
