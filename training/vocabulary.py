"""The draft vocabulary: the tokens that a head can propose, a subset of the target's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from training.data import Conversation
from training.errors import TrainingError


@dataclass(frozen=True, slots=True)
class DraftVocabulary:
    """token_ids: int64 [draft], ascending ids of the target's vocabulary."""

    token_ids: Tensor
    target_size: int

    def __post_init__(self) -> None:
        assert bool((self.token_ids.diff() > 0).all())
        assert 0 <= int(self.token_ids[0]) <= int(self.token_ids[-1]) < self.target_size

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def d2t(self) -> Tensor:
        """int64 [draft], what to add to a draft id to get the target's."""
        return self.token_ids - torch.arange(len(self))

    @property
    def t2d(self) -> Tensor:
        """bool [target], whether the head can propose the token."""
        mask = torch.zeros(self.target_size, dtype=torch.bool)
        mask[self.token_ids] = True
        return mask

    @property
    def index(self) -> Tensor:
        """int64 [target], draft id of each token; -1 outside."""
        index = torch.full((self.target_size,), -1)
        index[self.token_ids] = torch.arange(len(self))
        return index

    @classmethod
    def from_d2t(cls, d2t: Tensor, target_size: int) -> DraftVocabulary:
        return cls(d2t + torch.arange(len(d2t)), target_size)

    @classmethod
    def full(cls, target_size: int) -> DraftVocabulary:
        return cls(torch.arange(target_size), target_size)

    @classmethod
    def most_frequent(
        cls, conversations: Iterable[Conversation], size: int, target_size: int
    ) -> DraftVocabulary:
        """The tokens that answers use most; when they use fewer, the lowest unused ids fill up."""
        if not 1 <= size <= target_size:
            raise TrainingError(f"the draft vocabulary must have from 1 to {target_size} tokens, not {size}.")
        counts = np.zeros(target_size, np.int64)
        for conversation in conversations:
            counts += np.bincount(conversation.token_ids[conversation.prompt_len :], minlength=target_size)
        chosen = np.argsort(-counts, kind="stable")[:size]
        return cls(torch.from_numpy(np.sort(chosen)), target_size)

    def coverage(self, conversations: Iterable[Conversation]) -> float:
        """Share of the answers' tokens that the head can propose."""
        known, t2d, total = 0, self.t2d.numpy(), 0
        for conversation in conversations:
            response = conversation.token_ids[conversation.prompt_len :]
            known, total = known + int(t2d[response].sum()), total + len(response)
        return known / max(total, 1)
