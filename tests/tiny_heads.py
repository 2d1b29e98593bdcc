"""Tiny draft heads on disk in every format, for the tiny models, and what they compute, written plainly."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

Tensors = dict[str, Tensor]

EPS = 1e-5
SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_hidden_layers": 1,
    "hidden_act": "silu",
    "vocab_size": 100,
    "rms_norm_eps": EPS,
    "max_position_embeddings": 2048,
}
D, INNER, HEADS, KV, HEAD_DIM, VOCAB = 64, 96, 4, 2, 16, 100
DRAFT_VOCAB = 40
FEATURES = 3


@dataclass(frozen=True)
class TinyHead:
    """A random head. Names are ours; `layer.` is the decoder layer.

    sharpness: scale of what its logits come from; little gives broad trees, much gives deep ones.
    norm_*, fc_norm, joint_norm: as in a speculators configuration (joint_norm is its norm_before_fc).
    """

    kind: str = "eagle3"
    seed: int = 0
    fc_norm: bool = False
    joint_norm: bool = False
    norm_before_residual: bool = False
    norm_output: bool = False
    qk_norm: bool = False
    biases: bool = False
    theta: float = 10_000.0
    vocab_size: int = VOCAB
    draft_vocab: int = DRAFT_VOCAB
    sharpness: float = 1.0
    tensors: Tensors = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", _random(self))

    @property
    def target_ids(self) -> Tensor:
        places = torch.arange(self.draft_vocab)
        return places + self.tensors["d2t"] if self.kind == "eagle3" else torch.arange(self.vocab_size)


def _random(head: TinyHead) -> Tensors:
    generator = torch.Generator().manual_seed(head.seed)

    def matrix(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=generator) * 1.5 * columns**-0.5

    def norm(size: int) -> Tensor:
        return torch.rand(size, generator=generator) + 0.5

    inputs = 2 * D if head.kind == "eagle3" else D
    tensors = {
        "layer.self_attn.q_proj.weight": matrix(HEADS * HEAD_DIM, inputs),
        "layer.self_attn.k_proj.weight": matrix(KV * HEAD_DIM, inputs),
        "layer.self_attn.v_proj.weight": matrix(KV * HEAD_DIM, inputs),
        "layer.self_attn.o_proj.weight": matrix(D, HEADS * HEAD_DIM),
        "layer.mlp.gate_proj.weight": matrix(INNER, D),
        "layer.mlp.up_proj.weight": matrix(INNER, D),
        "layer.mlp.down_proj.weight": matrix(D, INNER),
        "layer.post_attention_layernorm.weight": norm(D),
    }
    if head.qk_norm:
        tensors |= {f"layer.self_attn.{x}_norm.weight": norm(HEAD_DIM) for x in "qk"}
    if head.biases:
        attention = [f"layer.self_attn.{x}_proj" for x in ("qkvo" if head.kind == "eagle3" else "qkv")]
        tensors |= {f"{n}.bias": 0.3 * matrix(1, len(tensors[f"{n}.weight"]))[0] for n in attention}
    if head.kind == "eagle":
        tensors |= {"fc.weight": matrix(D, 2 * D), "fc.bias": 0.3 * matrix(1, D)[0]}
        last = ("fc.weight", "fc.bias", "layer.self_attn.o_proj.weight", "layer.mlp.down_proj.weight")
        return tensors | {name: head.sharpness * tensors[name] for name in last}
    ids = torch.randperm(head.vocab_size, generator=generator)[: head.draft_vocab].sort().values
    tensors |= {
        "layer.input_layernorm.weight": norm(D),
        "layer.hidden_norm.weight": norm(D),
        "fc.weight": matrix(D, FEATURES * D),
        "norm.weight": norm(D),
        "lm_head.weight": head.sharpness * matrix(head.draft_vocab, D),
        "d2t": ids - torch.arange(head.draft_vocab),
        "t2d": torch.zeros(head.vocab_size, dtype=torch.bool).index_fill(0, ids, True),
    }
    if head.fc_norm:
        tensors |= {f"fc_norm.{i}.weight": norm(D) for i in range(FEATURES)}
    if head.joint_norm:
        tensors["input_norm.weight"] = norm(FEATURES * D)
    return tensors


def save_head(
    head: TinyHead,
    folder: Path,
    layout: str,
    layers: Sequence[int] | None = (0, 1, 2),
    pickled: bool = False,
    config: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Tensor | None] | None = None,
) -> Path:
    """Write `head` as `published`, `specforge` or `speculators` do. config, tensors: changes; None removes.

    layers: which the configuration names as the features' (inputs, for the tiny models of two layers).
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = {**_config(head, layout, layers), **(config or {})}
    written = {name: value for name, value in written.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(written))
    prefix = "midlayer." if head.kind == "eagle3" and layout != "speculators" else "layers.0."
    stored = {
        name.replace("layer.", prefix, 1) if name.startswith("layer.") else name: tensor
        for name, tensor in head.tensors.items()
    }
    stored = {n: t.contiguous() for n, t in {**stored, **(tensors or {})}.items() if t is not None}
    if pickled:
        torch.save(stored, folder / "pytorch_model.bin")
    else:
        save_file(stored, folder / "model.safetensors")
    return folder


def _config(head: TinyHead, layout: str, layers: Sequence[int] | None) -> dict[str, Any]:
    sizes = {**SIZES, "vocab_size": head.vocab_size, "model_type": "llama"}
    ids = None if layers is None else list(layers)
    if layout == "speculators":
        inner = {
            **sizes,
            "model_type": "qwen3" if head.qk_norm else "llama",
            "attention_bias": head.biases,
            "rope_parameters": {"rope_type": "default", "rope_theta": head.theta},
        }
        return {
            "architectures": ["Eagle3Speculator"],
            "speculators_model_type": "eagle3",
            "speculators_config": {
                "algorithm": "eagle3",
                "verifier": {"architectures": ["LlamaForCausalLM"]},
            },
            "transformer_layer_config": inner,
            "draft_vocab_size": head.draft_vocab,
            "eagle_aux_hidden_state_layer_ids": ids,
            "target_hidden_size": None,
            "fc_norm": head.fc_norm,
            "norm_before_fc": head.joint_norm,
            "norm_before_residual": head.norm_before_residual,
            "norm_output": head.norm_output,
        }
    theta = {} if head.theta == 10_000.0 else {"rope_theta": head.theta}  # published heads leave it out
    if head.kind == "eagle":
        return {"architectures": ["LlamaForCausalLM"], **sizes, **theta, "qkv_bias": head.biases}
    eagle3 = {**sizes, **theta, "draft_vocab_size": head.draft_vocab, "attention_bias": head.biases}
    if layout == "published":
        return {"architectures": ["LlamaForCausalLM"], **eagle3, "eagle_aux_hidden_state_layer_ids": ids}
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        **eagle3,
        "fc_norm": head.fc_norm,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": ids},
    }


class DenseHead:
    """The head without cache, batch or tree: every row attends to all rows before it. float64."""

    def __init__(self, head: TinyHead, embedding: Tensor, lm_head: Tensor) -> None:
        """embedding, lm_head: the target's, [vocab, d]."""
        self.head, self.embedding = head, embedding.double()
        self.t = {name: tensor.double() for name, tensor in head.tensors.items()}
        self.lm_head = self.t["lm_head.weight"] if head.kind == "eagle3" else lm_head.double()

    def fuse(self, streams: Tensor) -> Tensor:
        """[rows, FEATURES, d] -> [rows, d], what the verifier sends."""
        if self.head.fc_norm:
            parts = [self._norm(streams[:, i].double(), f"fc_norm.{i}") for i in range(FEATURES)]
            streams = torch.stack(parts, dim=1)
        flat = streams.double().flatten(1)
        return (self._norm(flat, "input_norm") if self.head.joint_norm else flat) @ self.t["fc.weight"].T

    def outputs(self, token_ids: Sequence[int], hidden: Tensor) -> Tensor:
        """[rows, d], what is fed back."""
        embedded = self.embedding[torch.tensor(token_ids)]
        if self.head.kind == "eagle3":
            normed = self._norm(hidden.double(), "layer.hidden_norm")
            x = torch.cat((self._norm(embedded, "layer.input_layernorm"), normed), -1)
            residual = normed if self.head.norm_before_residual else hidden.double()
        else:
            x = residual = self._linear(torch.cat((embedded, hidden.double()), -1), "fc")
        residual = residual + self._linear(self._attend(x), "layer.self_attn.o_proj")
        inner = self._norm(residual, "layer.post_attention_layernorm")
        gate, up = (self._linear(inner, f"layer.mlp.{name}_proj") for name in ("gate", "up"))
        residual = residual + self._linear(F.silu(gate) * up, "layer.mlp.down_proj")
        return self._norm(residual, "norm") if self.head.norm_output else residual

    def logits(self, outputs: Tensor) -> Tensor:
        """[rows, draft_vocab]."""
        normed = self.head.norm_output or self.head.kind == "eagle"
        return (outputs if normed else self._norm(outputs, "norm")) @ self.lm_head.T

    def _attend(self, x: Tensor) -> Tensor:
        rows, a = len(x), "layer.self_attn."
        query = self._linear(x, f"{a}q_proj").view(rows, HEADS, HEAD_DIM)
        key = self._linear(x, f"{a}k_proj").view(rows, KV, HEAD_DIM)
        value = self._linear(x, f"{a}v_proj").view(rows, KV, HEAD_DIM)
        if self.head.qk_norm:
            query, key = self._norm(query, f"{a}q_norm"), self._norm(key, f"{a}k_norm")
        query, key = self._rotated(query), self._rotated(key).repeat_interleave(HEADS // KV, dim=1)
        scores = torch.einsum("qhd,khd->hqk", query, key) * HEAD_DIM**-0.5
        scores = scores.masked_fill(torch.ones(rows, rows).triu(1).bool(), float("-inf"))
        value = value.repeat_interleave(HEADS // KV, dim=1)
        return torch.einsum("hqk,khd->qhd", scores.softmax(-1), value).flatten(1)

    def _rotated(self, x: Tensor) -> Tensor:
        frequencies = self.head.theta ** -(torch.arange(0, HEAD_DIM, 2).double() / HEAD_DIM)
        angles = torch.outer(torch.arange(len(x)).double(), frequencies).unsqueeze(1)
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            (first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()), -1
        )

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt() * self.t[f"{name}.weight"]

    def _linear(self, x: Tensor, name: str) -> Tensor:
        bias = self.t.get(f"{name}.bias")
        return F.linear(x, self.t[f"{name}.weight"], bias)
