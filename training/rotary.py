"""Rotary embeddings of a head, in the halves convention of the Llama family."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from serving.models.rope import RopeConfig, inverse_frequencies


class Rotary(nn.Module):
    """Tables for positions 0 .. positions - 1; they are no part of a checkpoint."""

    cos: Tensor
    sin: Tensor

    def __init__(self, rope: RopeConfig, head_dim: int, positions: int) -> None:
        super().__init__()
        inverse, factor = inverse_frequencies(rope, head_dim, positions)
        angles = torch.outer(torch.arange(positions, dtype=torch.float32), inverse)
        angles = torch.cat((angles, angles), dim=-1)  # [positions, D]
        self.register_buffer("cos", angles.cos() * factor, persistent=False)
        self.register_buffer("sin", angles.sin() * factor, persistent=False)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """x: [N, heads, D]. positions: [N]. Returns x's dtype."""
        cos = self.cos[positions][:, None].to(x.dtype)  # [N, 1, D]
        sin = self.sin[positions][:, None].to(x.dtype)
        low, high = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-high, low), dim=-1) * sin
