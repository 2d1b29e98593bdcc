"""The heads as modules to train. Parameter names are those of the published checkpoints.

Parameters are float32; products run in `Compute.dtype`, the residual stream and the norms in float32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.head_config import HeadConfig
from training.rotary import Rotary


class LayerWeights(NamedTuple):
    """One batch's view of the layer in the compute dtype, cast and fused once for all steps."""

    qkv: Tensor
    out: Tensor
    gate_up: Tensor
    down: Tensor


class InputWeights(NamedTuple):
    """How a token's embedding and the hidden state beside it enter the layer, in the compute dtype."""

    token: Tensor
    hidden: Tensor


class Weights(NamedTuple):
    inputs: InputWeights
    layer: LayerWeights


class LayerInput(NamedTuple):
    """x: [N, d], projected by `qkv`. offset: [N, q + 2 kv], added to the projections, or None.

    residual: float32 [N, d], what the layer's outputs are added to.
    """

    x: Tensor
    qkv: Tensor
    offset: Tensor | None
    residual: Tensor

    def projected(self, rows: Tensor | slice, columns: slice) -> Tensor:
        result = F.linear(self.x[rows], self.qkv[columns])
        return result if self.offset is None else result + self.offset[rows, columns]


class Projected(NamedTuple):
    """query: [N, H, D]. key, value: [N, KV, D]. Rotated."""

    query: Tensor
    key: Tensor
    value: Tensor


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class _Attention(nn.Module):
    def __init__(self, c: HeadConfig, inputs: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(inputs, c.num_heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(inputs, c.num_kv_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(inputs, c.num_kv_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.num_heads * c.head_dim, c.hidden_size, bias=False)


class _Mlp(nn.Module):
    def __init__(self, c: HeadConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)


class _Layer(nn.Module):
    def __init__(self, c: HeadConfig, inputs: int) -> None:
        super().__init__()
        self.self_attn = _Attention(c, inputs)
        self.mlp = _Mlp(c)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)

    def weights(self, dtype: torch.dtype) -> LayerWeights:
        a, m = self.self_attn, self.mlp
        return LayerWeights(
            torch.cat((a.q_proj.weight, a.k_proj.weight, a.v_proj.weight)).to(dtype),
            a.o_proj.weight.to(dtype),
            torch.cat((m.gate_proj.weight, m.up_proj.weight)).to(dtype),
            m.down_proj.weight.to(dtype),
        )

    def finish(self, residual: Tensor, context: Tensor, weights: LayerWeights) -> Tensor:
        """After attention: float32 [N, d]."""
        hidden = residual + F.linear(context, weights.out)
        inner = self.post_attention_layernorm(hidden).to(context.dtype)
        gate, up = F.linear(inner, weights.gate_up).chunk(2, dim=-1)
        return hidden + F.linear(F.silu(gate) * up, weights.down)


class _Eagle3Layer(_Layer):
    def __init__(self, c: HeadConfig) -> None:
        super().__init__(c, 2 * c.hidden_size)
        self.hidden_norm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.input_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)


class Head(nn.Module, ABC):
    """What the unrolled draft needs of either kind. All hidden states are float32 [N, d]."""

    layer: _Layer

    def __init__(self, config: HeadConfig, max_positions: int) -> None:
        super().__init__()
        self.config = config
        self.rotary = Rotary(config.rope, config.head_dim, max_positions)

    @abstractmethod
    def fuse(self, streams: Tensor, dtype: torch.dtype) -> Tensor:
        """streams: bf16 [N, streams, hidden] as captured. Returns the first step's hidden states."""

    @abstractmethod
    def weights(self, dtype: torch.dtype) -> Weights: ...

    @abstractmethod
    def token_part(self, embeds: Tensor, weights: Weights) -> Tensor:
        """What a token adds to the layer's input: the same in every step and chain that is fed the token."""

    @abstractmethod
    def layer_input(self, token_part: Tensor, hidden: Tensor, weights: Weights) -> LayerInput: ...

    @abstractmethod
    def head_input(self, hidden: Tensor) -> Tensor:
        """What the output projection is applied to: [N, d]."""

    @abstractmethod
    def output_weight(self, borrowed: Tensor) -> Tensor:
        """[draft, d], the output projection; `borrowed` is the target's, for heads without their own."""

    def project(self, inputs: LayerInput, positions: Tensor) -> Projected:
        return self._split(inputs.projected(slice(None), slice(None)), None, positions, positions)

    def project_first(self, inputs: LayerInput, positions: Tensor, chain_rows: Tensor) -> Projected:
        """Step 0: keys and values of every row, queries of the chains alone."""
        queries = self.config.num_heads * self.config.head_dim
        query = inputs.projected(chain_rows, slice(queries))
        rest = inputs.projected(slice(None), slice(queries, None))
        return self._split(rest, query, positions, positions[chain_rows])

    def _split(
        self, projected: Tensor, query: Tensor | None, positions: Tensor, query_positions: Tensor
    ) -> Projected:
        """projected: queries (if not given), keys and values side by side."""
        c = self.config
        kv = c.num_kv_heads * c.head_dim
        if query is None:
            query = projected[:, : -2 * kv]
        key, value = projected[:, -2 * kv : -kv], projected[:, -kv:]
        return Projected(
            self._rotated(query, c.num_heads, query_positions),
            self._rotated(key, c.num_kv_heads, positions),
            value.unflatten(-1, (c.num_kv_heads, c.head_dim)),
        )

    def _rotated(self, x: Tensor, heads: int, positions: Tensor) -> Tensor:
        rotated: Tensor = self.rotary(x.unflatten(-1, (heads, self.config.head_dim)), positions)
        return rotated


class Eagle3Head(Head):
    """Fused features; embedding and hidden state side by side into attention; a vocabulary of its own."""

    def __init__(self, config: HeadConfig, max_positions: int) -> None:
        super().__init__(config, max_positions)
        c, features = config, len(config.layers)
        if c.fc_norm:
            self.fc_norm = nn.ModuleList(RMSNorm(c.hidden_size, c.rms_norm_eps) for _ in range(features))
        self.fc = nn.Linear(features * c.hidden_size, c.hidden_size, bias=False)
        self.midlayer = _Eagle3Layer(c)
        self.norm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.lm_head = nn.Linear(c.hidden_size, c.draft_vocab_size, bias=False)

    @property
    def layer(self) -> _Eagle3Layer:  # type: ignore[override]
        return self.midlayer

    def fuse(self, streams: Tensor, dtype: torch.dtype) -> Tensor:
        features = [streams[:, index] for index in self._stream_indices(streams.shape[1])]
        if self.config.fc_norm:
            features = [norm(f.float()) for norm, f in zip(self.fc_norm, features, strict=True)]
        fused = torch.cat([feature.to(dtype) for feature in features], dim=-1)
        return F.linear(fused, self.fc.weight.to(dtype)).float()

    def weights(self, dtype: torch.dtype) -> Weights:
        layer, d = self.midlayer.weights(dtype), self.config.hidden_size
        return Weights(InputWeights(layer.qkv[:, :d], layer.qkv[:, d:]), layer)

    def token_part(self, embeds: Tensor, weights: Weights) -> Tensor:
        normed = self.midlayer.input_layernorm(embeds.float())
        return F.linear(normed.to(embeds.dtype), weights.inputs.token)

    def layer_input(self, token_part: Tensor, hidden: Tensor, weights: Weights) -> LayerInput:
        normed = self.midlayer.hidden_norm(hidden).to(token_part.dtype)
        return LayerInput(normed, weights.inputs.hidden, token_part, hidden)

    def head_input(self, hidden: Tensor) -> Tensor:
        normed: Tensor = self.norm(hidden)
        return normed

    def output_weight(self, borrowed: Tensor) -> Tensor:
        return self.lm_head.weight

    def _stream_indices(self, captured: int) -> range:
        """All but the last stream, or the last alone where fusion is left out."""
        count = len(self.config.layers)
        return range(captured - 1, captured) if count == 1 else range(count)


class Eagle1Head(Head):
    """EAGLE-1 and HASS: predicts the target's last feature (after its norm), read by the target's lm_head."""

    final_norm: Tensor

    def __init__(self, config: HeadConfig, max_positions: int, final_norm: Tensor) -> None:
        super().__init__(config, max_positions)
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.layers = nn.ModuleList([_Layer(config, config.hidden_size)])
        self.register_buffer("final_norm", final_norm.float(), persistent=False)

    @property
    def layer(self) -> _Layer:  # type: ignore[override]
        layer = self.layers[0]
        assert isinstance(layer, _Layer)
        return layer

    def fuse(self, streams: Tensor, dtype: torch.dtype) -> Tensor:
        return self.feature(streams[:, -1])

    def feature(self, final: Tensor) -> Tensor:
        """The target's feature from what leaves its last layer: float32 [N, d]."""
        return F.rms_norm(final.float(), self.final_norm.shape, self.final_norm, self.config.rms_norm_eps)

    def weights(self, dtype: torch.dtype) -> Weights:
        fc, d = self.fc.weight.to(dtype), self.config.hidden_size
        return Weights(InputWeights(fc[:, :d], fc[:, d:]), self.layer.weights(dtype))

    def token_part(self, embeds: Tensor, weights: Weights) -> Tensor:
        return F.linear(embeds, weights.inputs.token)

    def layer_input(self, token_part: Tensor, hidden: Tensor, weights: Weights) -> LayerInput:
        x = token_part + F.linear(hidden.to(token_part.dtype), weights.inputs.hidden)
        return LayerInput(x, weights.layer.qkv, None, x.float())

    def head_input(self, hidden: Tensor) -> Tensor:
        return hidden

    def output_weight(self, borrowed: Tensor) -> Tensor:
        return borrowed
