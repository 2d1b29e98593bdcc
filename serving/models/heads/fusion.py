"""What a head is fed, made from the target's residual stream on the verifier.

There, so that d values travel and are kept per token instead of the stream at several depths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from serving.models.heads.config import HeadConfig
from serving.models.heads.weights import HeadWeights
from serving.models.linear import Linear, LinearOps


class Fusion(Protocol):
    """layers: whose input residual streams it wants, in order; num_layers: what leaves the last."""

    @property
    def layers(self) -> tuple[int, ...]: ...

    @property
    def width(self) -> int:
        """Values per position that come out."""
        ...

    def fuse(self, streams: Tensor) -> Tensor:
        """[rows, len(layers), d] -> [rows, width]."""
        ...


@dataclass(frozen=True, slots=True)
class Eagle3Fusion:
    """fc over the concatenated streams.

    norms: one RMSNorm weight [d] per stream where each is normalised first, else none.
    joint_norm: [len(layers) * d] where they are as one vector.
    """

    layers: tuple[int, ...]
    norms: tuple[Tensor, ...]
    joint_norm: Tensor | None
    fc: Linear
    ops: LinearOps

    @classmethod
    def load(cls, head: HeadConfig, weights: HeadWeights, ops: LinearOps) -> Eagle3Fusion:
        each = range(len(head.feature_layers)) if head.feature_norm == "each" else ()
        norms = tuple(weights.get(f"fc_norm.{index}.weight") for index in each)
        fc = ops.pack(weights.get("fc.weight"))
        return cls(head.feature_layers, norms, weights.find("input_norm.weight"), fc, ops)

    @property
    def width(self) -> int:
        return self.fc.out_features

    @torch.inference_mode()
    def fuse(self, streams: Tensor) -> Tensor:
        if self.norms:
            fed = self.ops.norms(tuple(zip(streams.unbind(1), self.norms, strict=True)))
        else:
            fed = streams.flatten(1)
        return self.ops.norm_linear(fed, self.joint_norm, self.fc)


@dataclass(frozen=True, slots=True)
class LastFeature:
    """EAGLE-1/2: what the target's lm_head is applied to. norm: the target's final, [d]."""

    layers: tuple[int]
    norm: Tensor
    eps: float

    @property
    def width(self) -> int:
        return len(self.norm)

    @torch.inference_mode()
    def fuse(self, streams: Tensor) -> Tensor:
        return F.rms_norm(streams[:, 0], self.norm.shape, self.norm, self.eps)
