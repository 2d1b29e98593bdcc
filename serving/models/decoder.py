"""The target network of the Llama family, lean: packed rows in, hidden states and logits out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from serving.errors import ModelLoadError
from serving.models.architecture import Architecture
from serving.models.linear import Linear, LinearOps
from serving.models.sharding import WHOLE, Part, Shard
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
        shard: Shard = WHOLE,
    ) -> Decoder:
        """The shard's part of network `a`; nothing else is read.

        Raises ModelLoadError for a missing tensor or one of the wrong shape.
        """
        reader = _Reader(weights, ops, dtype, device, shard)
        layers = [_load_layer(reader, a, f"model.layers.{index}.") for index in range(a.num_layers)]
        vocabulary = (a.vocab_size, a.hidden_size, shard.vocabulary(a))
        embedding = reader.by_outputs("model.embed_tokens", *vocabulary)
        head = embedding if a.tie_word_embeddings else reader.by_outputs("lm_head", *vocabulary)
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
    shard: Shard

    def tensor(self, name: str, *shape: int) -> Tensor:
        return self._part(name, shape, 0, Part(0, shape[0], shape[0]))

    def by_outputs(self, name: str, outputs: int, inputs: int, part: Part, bias: bool = False) -> Linear:
        """A part of a layer's outputs."""
        return self.fused([name], [outputs], inputs, [part], bias)

    def by_inputs(self, name: str, outputs: int, inputs: int, part: Part, bias: bool = False) -> Linear:
        """What a part of a layer's inputs adds to its outputs; the bias is the first rank's."""
        weight = self._part(f"{name}.weight", (outputs, inputs), 1, part)
        first = bias and self.shard.rank == 0
        return self.ops.pack(weight, self.tensor(f"{name}.bias", outputs) if first else None)

    def fused(
        self, names: list[str], outputs: list[int], inputs: int, parts: list[Part], bias: bool
    ) -> Linear:
        """A part of each of several layers of the same input, as one layer."""
        layers = list(zip(names, outputs, parts, strict=True))
        weights = [self._part(f"{name}.weight", (rows, inputs), 0, part) for name, rows, part in layers]
        biases = [self._part(f"{name}.bias", (rows,), 0, part) for name, rows, part in layers if bias]
        return self.ops.pack(_joined(weights), _joined(biases) if bias else None)

    def _part(self, name: str, shape: tuple[int, ...], dim: int, part: Part) -> Tensor:
        """A part along `dim` of a tensor that must have `shape`."""
        stored = self.weights.shape(name)
        if stored != shape:
            raise ModelLoadError(
                f"{name} has shape {list(stored)}, but the model's config.json asks for {list(shape)}."
            )
        piece = self.weights.slice(name, dim, part.start, part.stop)
        missing = part.width - (part.stop - part.start)
        if missing:
            piece = F.pad(piece, (*[0, 0] * (len(shape) - 1 - dim), 0, missing))
        return piece.to(self.device, self.dtype, copy=True)


def _joined(parts: list[Tensor]) -> Tensor:
    """A copy of the only part of an embedding would be held twice for a moment."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _load_layer(reader: _Reader, a: Architecture, prefix: str) -> Layer:
    attention, mlp, shard = f"{prefix}self_attn.", f"{prefix}mlp.", reader.shard
    q, kv = a.num_heads * a.head_dim, a.num_kv_heads * a.head_dim
    queries, keys = shard.queries(a), shard.keys(a)
    inner = (a.intermediate_size, a.hidden_size, shard.inner(a), a.mlp_bias)
    return Layer(
        input_norm=reader.tensor(f"{prefix}input_layernorm.weight", a.hidden_size),
        qkv=reader.fused(
            [f"{attention}{x}_proj" for x in "qkv"],
            [q, kv, kv],
            a.hidden_size,
            [queries, keys, keys],
            a.qkv_bias,
        ),
        head_norms=_load_head_norms(reader, attention, a.head_dim) if a.qk_norm else None,
        out=reader.by_inputs(f"{attention}o_proj", a.hidden_size, q, queries, a.o_bias),
        post_norm=reader.tensor(f"{prefix}post_attention_layernorm.weight", a.hidden_size),
        gate_up=reader.ops.pack_gate_up(
            reader.by_outputs(f"{mlp}gate_proj", *inner), reader.by_outputs(f"{mlp}up_proj", *inner)
        ),
        down=reader.by_inputs(
            f"{mlp}down_proj", a.hidden_size, a.intermediate_size, shard.inner(a), a.mlp_bias
        ),
    )


def _load_head_norms(reader: _Reader, prefix: str, head_dim: int) -> HeadNorms:
    query, key = (reader.tensor(f"{prefix}{x}_norm.weight", head_dim) for x in "qk")
    return HeadNorms(query, key)
