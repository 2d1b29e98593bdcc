"""The EAGLE-3 head: one decoder layer over (embedding, hidden), recursing on its own hidden state."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from serving.models.decoder import Attend
from serving.models.heads.checkpoint import HeadConfig, HeadWeights
from serving.models.linear import Linear, LinearOps

PREFIX = "midlayer."


@dataclass(frozen=True, slots=True)
class Eagle3Head:
    """Position i takes (hidden_i, token_{i+1}) and predicts token_{i+2} (EAGLE-3, section 3.1).

    hidden_i is the fused feature where the target has been, the head's own output before its norm elsewhere.
    embedding: the target's, [vocab, d]. target_ids: int64 [draft_vocab].
    """

    ops: LinearOps
    embedding: Tensor
    input_norm: Tensor
    hidden_norm: Tensor
    qkv: Linear
    out: Linear
    post_norm: Tensor
    gate_up: Linear
    down: Linear
    norm: Tensor
    lm_head: Linear
    target_ids: Tensor

    @classmethod
    def load(cls, config: HeadConfig, weights: HeadWeights, embedding: Tensor, ops: LinearOps) -> Eagle3Head:
        a = config.layer
        q, kv = a.num_heads * a.head_dim, a.num_kv_heads * a.head_dim
        attention, mlp = f"{PREFIX}self_attn.", f"{PREFIX}mlp."
        parts = zip("qkv", (q, kv, kv), strict=True)
        qkv = [weights.get(f"{attention}{x}_proj.weight", rows, 2 * a.hidden_size) for x, rows in parts]
        gate, up = (
            ops.pack(weights.get(f"{mlp}{x}_proj.weight", a.intermediate_size, a.hidden_size))
            for x in ("gate", "up")
        )
        # A vocabulary padded beyond the target's: what the target cannot say is not drafted (case S19).
        target_ids = weights.target_ids(config)
        sayable = target_ids < a.vocab_size
        lm_head = weights.get("lm_head.weight", config.draft_vocab_size, a.hidden_size)
        return cls(
            ops=ops,
            embedding=embedding,
            input_norm=weights.get(f"{PREFIX}input_layernorm.weight", a.hidden_size),
            hidden_norm=weights.get(f"{PREFIX}hidden_norm.weight", a.hidden_size),
            qkv=ops.pack(torch.cat(qkv)),
            out=ops.pack(weights.get(f"{attention}o_proj.weight", a.hidden_size, q)),
            post_norm=weights.get(f"{PREFIX}post_attention_layernorm.weight", a.hidden_size),
            gate_up=ops.pack_gate_up(gate, up),
            down=ops.pack(weights.get(f"{mlp}down_proj.weight", a.hidden_size, a.intermediate_size)),
            norm=weights.get("norm.weight", a.hidden_size),
            lm_head=ops.pack(lm_head[sayable]),
            target_ids=target_ids[sayable],
        )

    @torch.inference_mode()
    def forward(self, token_ids: Tensor, hidden: Tensor, attend: Attend) -> Tensor:
        """token_ids int64 [rows], hidden [rows, d] -> [rows, d], what the next step takes as hidden."""
        embedded = F.embedding(token_ids, self.embedding).to(hidden.dtype)
        both = (self._normed(embedded, self.input_norm), self._normed(hidden, self.hidden_norm))
        out = hidden.clone()
        self.ops.add_linear(
            out, attend(0, self.ops.norm_linear(torch.cat(both, -1), None, self.qkv)), self.out
        )
        self.ops.add_linear(out, self.ops.norm_swiglu(out, self.post_norm, self.gate_up), self.down)
        return out

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """float32 [rows, draft_vocab], valid until the next call."""
        return self.ops.norm_logits(hidden, self.norm, self.lm_head)

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self.ops.eps)
