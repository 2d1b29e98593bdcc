"""The one decoder layer of a head, after its input has been prepared."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from serving.models.decoder import Attend, HeadNorms
from serving.models.heads.weights import HeadWeights
from serving.models.linear import Linear, LinearOps


@dataclass(frozen=True, slots=True)
class HeadLayer:
    """qkv: input -> (heads + 2 * kv_heads) * head_dim. head_norms are applied by attention."""

    ops: LinearOps
    qkv: Linear
    head_norms: HeadNorms | None
    out: Linear
    post_norm: Tensor
    gate_up: Linear
    down: Linear

    @classmethod
    def load(cls, weights: HeadWeights, ops: LinearOps) -> HeadLayer:
        def plain(name: str) -> Linear:
            weight = weights.get(f"layer.{name}.weight")
            return Linear(weight, weights.find(f"layer.{name}.bias"), weight.shape[1], weight.shape[0])

        def packed(name: str) -> Linear:
            layer = plain(name)
            return ops.pack(layer.weight, layer.bias)

        qkv = [plain(f"self_attn.{x}_proj") for x in "qkv"]
        biases = [x.bias for x in qkv if x.bias is not None]
        query, key = (weights.find(f"layer.self_attn.{x}_norm.weight") for x in "qk")
        return cls(
            ops=ops,
            qkv=ops.pack(torch.cat([x.weight for x in qkv]), torch.cat(biases) if biases else None),
            head_norms=HeadNorms(query, key) if query is not None and key is not None else None,
            out=packed("self_attn.o_proj"),
            post_norm=weights.get("layer.post_attention_layernorm.weight"),
            gate_up=ops.pack_gate_up(packed("mlp.gate_proj"), packed("mlp.up_proj")),
            down=packed("mlp.down_proj"),
        )

    def add_to(self, residual: Tensor, x: Tensor, attend: Attend) -> None:
        """residual [rows, d] += attention over x [rows, in], += MLP, in place."""
        self.ops.add_linear(residual, attend(0, self.ops.norm_linear(x, None, self.qkv)), self.out)
        inner = self.ops.norm_swiglu(residual, self.post_norm, self.gate_up)
        self.ops.add_linear(residual, inner, self.down)
