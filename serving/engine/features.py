"""Features beside the KV cache: what a draft head is fed, for every committed position."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from serving.models.heads.fusion import Fusion


class FeatureCache:
    """[slots, d] in the target's dtype, written by every forward, moved with the KV of accepted nodes.

    A drafter that lost a sequence, a pause in speculation and a new drafter are one operation: gather the
    features of the positions it lacks and send them.
    width: of the target's residual stream.
    """

    def __init__(
        self, fusion: Fusion, num_slots: int, width: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._fusion = fusion
        self._features = torch.zeros(num_slots, fusion.width, dtype=dtype, device=device)
        self._taps = torch.empty(0, len(fusion.layers), width, dtype=dtype, device=device)
        self._places = {
            layer: [place for place, wanted in enumerate(fusion.layers) if wanted == layer]
            for layer in fusion.layers
        }

    def begin(self, rows: int) -> None:
        if len(self._taps) < rows:
            self._taps = self._taps.new_empty(rows, *self._taps.shape[1:])

    def tap(self, layer: int, hidden: Tensor) -> None:
        """The decoder's Tap."""
        for place in self._places.get(layer, ()):
            self._taps[: len(hidden), place] = hidden

    def write(self, slots: NDArray[np.int32]) -> None:
        """Fuse what the forward has shown and keep it at the rows' slots."""
        at = torch.from_numpy(slots.astype(np.int64))
        self._features[at.to(self._features.device)] = self._fusion.fuse(self._taps[: len(slots)])

    def move(self, source: NDArray[np.int32], target: NDArray[np.int32]) -> None:
        self._features[target.astype(np.int64)] = self._features[source.astype(np.int64)]

    def gather(self, slots: NDArray[np.int64]) -> NDArray[Any]:
        """[len(slots), d] for the wire: float32, float16, or bfloat16's bits as uint16."""
        return to_wire(self._features[torch.from_numpy(slots).to(self._features.device)])


def to_wire(tensor: Tensor) -> NDArray[Any]:
    """numpy has no bfloat16: its bits travel as uint16."""
    tensor = tensor.cpu()
    array: NDArray[Any] = (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array


def from_wire(array: NDArray[Any]) -> Tensor:
    if array.dtype == np.uint16:
        return torch.from_numpy(array).view(torch.bfloat16)
    return torch.from_numpy(array)
