"""The target network of the Llama family, lean: packed rows in, hidden states and logits out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from serving.errors import ModelLoadError
from serving.models.architecture import Architecture
from serving.models.linear import Linear, LinearOps
from serving.models.weights import Weights


@dataclass(frozen=True, slots=True)
class HeadNorms:
    """RMSNorm weights of each query and each key head, [head_dim] (Qwen3)."""

    query: Tensor
    key: Tensor


@dataclass(frozen=True, slots=True)
class Layer:
    """qkv: hidden -> (heads + 2 * kv_heads) * head_dim. head_norms are applied by attention."""

    input_norm: Tensor
    qkv: Linear
    head_norms: HeadNorms | None
    out: Linear
    post_norm: Tensor
    gate_up: Linear
    down: Linear


class Attend(Protocol):
    def __call__(self, layer: int, qkv: Tensor) -> Tensor:
        """Rotate, write keys and values to the cache, attend: [rows, (H + 2 KV) * D] -> [rows, H * D]."""
        ...


class Tap(Protocol):
    def __call__(self, layer: int, hidden: Tensor) -> None:
        """See the residual stream [rows, hidden] that enters `layer`; num_layers: that leaves the last one.

        Copy what must outlive the call.
        """
        ...


class Decoder:
    """Weights and the order of operations; attention, and with it the cache, is the caller's."""

    def __init__(
        self,
        architecture: Architecture,
        ops: LinearOps,
        layers: list[Layer],
        norm: Tensor,
        embedding: Linear,
        head: Linear,
    ) -> None:
        self.architecture = architecture
        self.ops = ops
        self.layers = layers
        self.norm = norm
        self.embedding = embedding
        self.head = head

    @classmethod
    def load(
        cls,
        a: Architecture,
        weights: Weights,
        ops: LinearOps,
        dtype: torch.dtype,
        device: torch.device,
    ) -> Decoder:
        """Raises ModelLoadError for a missing tensor or one of the wrong shape."""
        reader = _Reader(weights, ops, dtype, device)
        layers = [_load_layer(reader, a, f"model.layers.{index}.") for index in range(a.num_layers)]
        vocabulary = (a.vocab_size, a.hidden_size)
        embedding = reader.linear("model.embed_tokens", *vocabulary)
        head = embedding if a.tie_word_embeddings else reader.linear("lm_head", *vocabulary)
        return cls(a, ops, layers, reader.tensor("model.norm.weight", a.hidden_size), embedding, head)

    @torch.inference_mode()
    def forward(self, token_ids: Tensor, attend: Attend, tap: Tap | None = None) -> Tensor:
        """token_ids: int64 [rows]. Returns the residual stream after the last layer: [rows, hidden]."""
        hidden = self.ops.embed(token_ids, self.embedding)
        for index, layer in enumerate(self.layers):
            if tap is not None:
                tap(index, hidden)
            context = attend(index, self.ops.norm_linear(hidden, layer.input_norm, layer.qkv))
            self.ops.add_linear(hidden, context, layer.out)
            inner = self.ops.norm_swiglu(hidden, layer.post_norm, layer.gate_up)
            self.ops.add_linear(hidden, inner, layer.down)
        if tap is not None:
            tap(len(self.layers), hidden)
        return hidden

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """float32 [rows, vocab], valid until the next call."""
        return self.ops.norm_logits(hidden, self.norm, self.head)


@dataclass(frozen=True, slots=True)
class _Reader:
    weights: Weights
    ops: LinearOps
    dtype: torch.dtype
    device: torch.device

    def tensor(self, name: str, *shape: int) -> Tensor:
        stored = self.weights.get(name)
        if stored.shape != shape:
            raise ModelLoadError(
                f"{name} has shape {list(stored.shape)}, but the model's config.json asks for {list(shape)}."
            )
        return stored.to(self.device, self.dtype, copy=True)

    def linear(self, name: str, outputs: int, inputs: int, bias: bool = False) -> Linear:
        return self.ops.pack(*self._plain(name, outputs, inputs, bias))

    def fused(self, names: list[str], outputs: list[int], inputs: int, bias: bool) -> Linear:
        """Several layers of the same input as one."""
        parts = [self._plain(name, rows, inputs, bias) for name, rows in zip(names, outputs, strict=True)]
        biases = [part[1] for part in parts if part[1] is not None]
        return self.ops.pack(torch.cat([part[0] for part in parts]), torch.cat(biases) if biases else None)

    def _plain(self, name: str, outputs: int, inputs: int, bias: bool) -> tuple[Tensor, Tensor | None]:
        weight = self.tensor(f"{name}.weight", outputs, inputs)
        return weight, self.tensor(f"{name}.bias", outputs) if bias else None


def _load_layer(reader: _Reader, a: Architecture, prefix: str) -> Layer:
    attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
    q, kv = a.num_heads * a.head_dim, a.num_kv_heads * a.head_dim
    return Layer(
        input_norm=reader.tensor(f"{prefix}input_layernorm.weight", a.hidden_size),
        qkv=reader.fused([f"{attention}{x}_proj" for x in "qkv"], [q, kv, kv], a.hidden_size, a.qkv_bias),
        head_norms=_load_head_norms(reader, attention, a.head_dim) if a.qk_norm else None,
        out=reader.linear(f"{attention}o_proj", a.hidden_size, q, a.o_bias),
        post_norm=reader.tensor(f"{prefix}post_attention_layernorm.weight", a.hidden_size),
        gate_up=reader.ops.pack_gate_up(
            reader.linear(f"{mlp}gate_proj", a.intermediate_size, a.hidden_size, a.mlp_bias),
            reader.linear(f"{mlp}up_proj", a.intermediate_size, a.hidden_size, a.mlp_bias),
        ),
        down=reader.linear(f"{mlp}down_proj", a.hidden_size, a.intermediate_size, a.mlp_bias),
    )


def _load_head_norms(reader: _Reader, prefix: str, head_dim: int) -> HeadNorms:
    query, key = (reader.tensor(f"{prefix}{x}_norm.weight", head_dim) for x in "qk")
    return HeadNorms(query, key)
