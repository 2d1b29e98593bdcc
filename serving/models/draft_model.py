"""A small model of the same tokenizer as a draft network (speculative sampling, arXiv 2302.01318)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from serving.models.decoder import Attend, Decoder
from serving.models.linear import LinearOps


@dataclass(frozen=True, slots=True)
class DraftModel:
    """Position i takes token_i and predicts token_{i+1}.

    target_ids: int32, the identity over the tokens that both models have; what one of them has beyond
    those pads its vocabulary.
    """

    decoder: Decoder
    target_ids: Tensor

    @property
    def ops(self) -> LinearOps:
        return self.decoder.ops

    def forward(self, token_ids: Tensor, hidden: Tensor | None, attend: Attend) -> Tensor:
        """token_ids int64 [rows] -> the residual stream [rows, d]. A model needs no hidden state."""
        return self.decoder.forward(token_ids.clamp(max=len(self.target_ids) - 1), attend)

    def logits(self, hidden: Tensor) -> Tensor:
        """float32 [rows, len(target_ids)], valid until the next call."""
        return self.decoder.logits(hidden)[:, : len(self.target_ids)]
