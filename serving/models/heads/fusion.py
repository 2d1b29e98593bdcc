"""EAGLE-3's feature fusion. It runs on the verifier, so that d values travel per token instead of 3 d."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from serving.models.heads.checkpoint import HeadConfig, HeadWeights
from serving.models.linear import Linear, LinearOps


@dataclass(frozen=True, slots=True)
class FeatureFusion:
    """fc over the concatenated features, each normalised first where the head was trained so.

    norms: one weight [d] per feature layer, or none.
    """

    layers: tuple[int, ...]
    norms: tuple[Tensor, ...]
    fc: Linear
    ops: LinearOps

    @classmethod
    def load(cls, config: HeadConfig, weights: HeadWeights, ops: LinearOps) -> FeatureFusion:
        count, width = len(config.feature_layers), config.target_hidden_size
        norms = (
            tuple(weights.get(f"fc_norm.{i}.weight", width) for i in range(count)) if config.fc_norm else ()
        )
        fc = ops.pack(weights.get("fc.weight", config.layer.hidden_size, count * width))
        return cls(config.feature_layers, norms, fc, ops)

    @torch.inference_mode()
    def fuse(self, features: Tensor) -> Tensor:
        """[rows, len(layers), d] -> [rows, d]."""
        if self.norms:
            parts = zip(features.unbind(1), self.norms, strict=True)
            features = torch.stack([F.rms_norm(x, w.shape, w, self.ops.eps) for x, w in parts], dim=1)
        return self.ops.norm_linear(features.flatten(1), None, self.fc)
