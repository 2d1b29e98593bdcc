"""The head of EAGLE-1 and EAGLE-2: it continues the target's own last feature."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from serving.models.decoder import Attend
from serving.models.heads.layer import HeadLayer
from serving.models.heads.weights import HeadWeights
from serving.models.linear import Linear, LinearOps


@dataclass(frozen=True, slots=True)
class EagleHead:
    """Position i takes (feature_i, token_{i+1}) and predicts feature_{i+1} (EAGLE, section 4.1).

    A feature is what the target's lm_head is applied to: the last hidden state after the final norm. `fc`
    fuses it with the embedding; the layer has no norm before attention, and its output none after.
    embedding: the target's, [vocab, d]. target_ids: int32 [vocab], the identity.
    """

    ops: LinearOps
    layer: HeadLayer
    embedding: Tensor
    fc: Linear
    lm_head: Linear
    target_ids: Tensor
    dtype: torch.dtype

    @classmethod
    def load(cls, weights: HeadWeights, embedding: Tensor, lm_head: Tensor, ops: LinearOps) -> EagleHead:
        """lm_head: the target's, [vocab, d]. Raises ModelLoadError."""
        return cls(
            ops=ops,
            layer=HeadLayer.load(weights, ops),
            embedding=embedding,
            fc=ops.pack(weights.get("fc.weight"), weights.find("fc.bias")),
            lm_head=ops.pack(lm_head.to(weights.device, weights.dtype)),
            target_ids=torch.arange(len(lm_head), dtype=torch.int32, device=weights.device),
            dtype=weights.dtype,
        )

    @torch.inference_mode()
    def forward(self, token_ids: Tensor, hidden: Tensor, attend: Attend) -> Tensor:
        """token_ids int64 [rows], hidden [rows, d] -> [rows, d], what the next step takes as hidden."""
        embedded = F.embedding(token_ids, self.embedding)
        both = torch.cat((embedded.to(self.dtype), hidden.to(self.dtype)), -1)
        residual = self.ops.norm_linear(both, None, self.fc)
        self.layer.add_to(residual, residual, attend)
        return residual

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """float32 [rows, vocab], valid until the next call."""
        return self.ops.norm_logits(hidden, None, self.lm_head)
