"""What a drafter grows trees with, and what such a network is fed of the committed text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from serving.drafting.messages import Extend
from serving.engine.features import from_wire
from serving.models.decoder import Attend
from serving.models.linear import LinearOps


class DraftNetwork(Protocol):
    """A head, or a whole model. target_ids: int32 [draft_vocab], distinct."""

    @property
    def target_ids(self) -> Tensor: ...

    @property
    def ops(self) -> LinearOps: ...

    def forward(self, token_ids: Tensor, hidden: Tensor, attend: Attend) -> Tensor:
        """token_ids int64 [rows], hidden [rows, d] -> [rows, d]: gives logits, and is fed back."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """float32 [rows, draft_vocab], valid until the next call."""
        ...


@dataclass(frozen=True, slots=True)
class Fed:
    """Rows at positions start .. end - 1 that committed text adds to a network's cache.

    token_ids: int32 [end - start]. hidden: [end - start, width]; of width 0 for a network that needs none.
    """

    start: int
    token_ids: NDArray[np.int32]
    hidden: Tensor

    @property
    def end(self) -> int:
        return self.start + len(self.token_ids)


class Feeding(Protocol):
    def __call__(self, extend: Extend) -> Fed | None:
        """None: the message lacks what the network needs."""
        ...


def feed_pairs(extend: Extend) -> Fed | None:
    """A head's: position i takes the target's feature of i and the token that followed it."""
    if extend.features is None:
        return None
    return Fed(extend.start, extend.token_ids, from_wire(extend.features))


def feed_tokens(extend: Extend) -> Fed | None:
    """A model's: position i takes token i, so it is one position ahead of a head."""
    if extend.first_token is None:
        start, token_ids = extend.start + 1, extend.token_ids
    else:
        start, token_ids = 0, np.append(np.int32(extend.first_token), extend.token_ids)
    return Fed(start, token_ids, torch.empty(len(token_ids), 0))
