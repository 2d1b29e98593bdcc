"""The EAGLE-3 head: one decoder layer over (embedding, hidden), recursing on its own hidden state."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from serving.models.decoder import Attend
from serving.models.heads.config import HeadConfig
from serving.models.heads.layer import HeadLayer
from serving.models.heads.vocabulary import sayable, target_ids
from serving.models.heads.weights import HeadWeights
from serving.models.linear import Linear, LinearOps


@dataclass(frozen=True, slots=True)
class Eagle3Head:
    """Position i takes (hidden_i, token_{i+1}) and predicts token_{i+2} (EAGLE-3, section 3.1).

    hidden_i is the fused feature where the target has been, the head's own output elsewhere: before its norm,
    or with `norm_output` after it.
    embedding: [vocab, d]. target_ids: int32 [draft_vocab], distinct.
    """

    ops: LinearOps
    layer: HeadLayer
    embedding: Tensor
    input_norm: Tensor
    hidden_norm: Tensor
    norm: Tensor
    lm_head: Linear
    target_ids: Tensor
    norm_before_residual: bool
    norm_output: bool

    @classmethod
    def load(
        cls, head: HeadConfig, weights: HeadWeights, embedding: Tensor, vocab_size: int, ops: LinearOps
    ) -> Eagle3Head:
        """For a target of `vocab_size` tokens. Raises ModelLoadError."""
        ids = target_ids(weights, head)
        kept = sayable(ids, vocab_size)
        return cls(
            ops=ops,
            layer=HeadLayer.load(weights, ops),
            embedding=embedding,
            input_norm=weights.get("layer.input_layernorm.weight"),
            hidden_norm=weights.get("layer.hidden_norm.weight"),
            norm=weights.get("norm.weight"),
            lm_head=ops.pack(weights.get("lm_head.weight")[kept.to(weights.device)]),
            target_ids=ids[kept].to(weights.device, torch.int32),
            norm_before_residual=head.norm_before_residual,
            norm_output=head.norm_output,
        )

    @torch.inference_mode()
    def forward(self, token_ids: Tensor, hidden: Tensor, attend: Attend) -> Tensor:
        """token_ids int64 [rows], hidden [rows, d] -> [rows, d], what the next step takes as hidden."""
        hidden = hidden.to(self.norm.dtype)
        embedded = F.embedding(token_ids, self.embedding).to(hidden.dtype)
        both = self.ops.norms(((embedded, self.input_norm), (hidden, self.hidden_norm)))
        residual = (both[:, -hidden.shape[1] :] if self.norm_before_residual else hidden).clone(
            memory_format=torch.contiguous_format
        )
        self.layer.add_to(residual, both, attend)
        return self.ops.norms(((residual, self.norm),)) if self.norm_output else residual

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """float32 [rows, draft_vocab], valid until the next call."""
        return self.ops.norm_logits(hidden, None if self.norm_output else self.norm, self.lm_head)
