"""What the step loop needs of attention, and what every implementation shares."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from serving.engine.batch import Batch
from serving.models.architecture import Architecture
from serving.models.rope import inverse_frequencies


class AttentionBackend(Protocol):
    """Owns the layout of the paged cache and is the decoder's `Attend`."""

    def begin(self, batch: Batch) -> None:
        """Make `batch` the step that the following calls belong to."""
        ...

    def __call__(self, layer: int, qkv: Tensor) -> Tensor: ...

    def move_slots(self, source: NDArray[np.int32], target: NDArray[np.int32]) -> None:
        """Copy keys and values of slots in every layer; sources ascend, and none lies before its target."""
        ...


def rope_table(architecture: Architecture, max_positions: int) -> Tensor:
    """float32 [max_positions, head_dim]: cosines of each position, then sines, attention factor included."""
    inverse, factor = inverse_frequencies(architecture.rope, architecture.head_dim, max_positions)
    angles = torch.outer(torch.arange(max_positions, dtype=torch.float32), inverse)
    return torch.cat((angles.cos(), angles.sin()), dim=1) * factor


def kv_bytes_per_token(architecture: Architecture, dtype: torch.dtype) -> int:
    a = architecture
    return 2 * a.num_layers * a.num_kv_heads * a.head_dim * dtype.itemsize
