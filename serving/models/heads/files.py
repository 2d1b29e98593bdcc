"""The weight file of a head: safetensors, or the pickle that EAGLE's own heads are published in."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from serving.errors import ModelLoadError
from serving.models.weights import INDEX, SINGLE, Weights

PICKLE = "pytorch_model.bin"


class StoredTensors(Protocol):
    """Tensors by the name they are stored under."""

    @property
    def names(self) -> frozenset[str]: ...

    def get(self, name: str) -> Tensor:
        """As stored. Raises ModelLoadError when it cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class PickledTensors:
    """A state dict read by torch's restricted unpickler, which makes tensors and runs no code."""

    tensors: Mapping[str, Tensor]

    @classmethod
    def open(cls, file: Path) -> PickledTensors:
        """Raises ModelLoadError when the file is damaged or holds anything but tensors."""
        try:
            mapped = zipfile.is_zipfile(file)  # files of torch before 1.6 are not
            tensors = torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)
        except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError) as error:
            raise ModelLoadError(
                f"{file} is truncated, corrupt or holds more than tensors; fetch it again, or convert it to "
                "safetensors."
            ) from error
        if not isinstance(tensors, dict) or not all(isinstance(t, Tensor) for t in tensors.values()):
            raise ModelLoadError(f"{file} must hold tensors by name.")
        return cls(tensors)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.tensors)

    def get(self, name: str) -> Tensor:
        return self.tensors[name]


def open_tensors(folder: Path) -> StoredTensors:
    """Safetensors where there are any, else the pickle. Raises ModelLoadError."""
    safe = (folder / SINGLE).exists() or (folder / INDEX).exists()
    if not safe and (folder / PICKLE).exists():
        return PickledTensors.open(folder / PICKLE)
    return Weights.open(folder)
