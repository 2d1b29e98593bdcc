"""A head's tensors by one set of names, each checked before it is used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from serving.errors import ModelLoadError
from serving.models.heads.config import HeadConfig
from serving.models.heads.files import StoredTensors, open_tensors
from serving.models.heads.shapes import Shapes, tensor_shapes

EMBEDDING = "embed_tokens.weight"
OPTIONAL = {EMBEDDING, "d2t", "t2d"}
# Parts of the target that trainers leave in a head's checkpoint, and tables that follow from config.json.
IGNORED = ("verifier_", "rotary_emb.", "layer.self_attn.rotary_emb.")
_RENAMED = {"model.": "", "midlayer.": "layer.", "layers.0.": "layer."}


@dataclass(frozen=True, slots=True)
class HeadWeights:
    """names: where each tensor is stored, by our name for it (`shapes.py`)."""

    folder: Path
    stored: StoredTensors
    names: dict[str, str]
    shapes: Shapes
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def open(cls, folder: Path, head: HeadConfig, dtype: torch.dtype, device: torch.device) -> HeadWeights:
        """Raises ModelLoadError when a tensor is missing, or one is there that the head has no use for."""
        stored, shapes = open_tensors(folder), tensor_shapes(head)
        names = {_our_name(name): name for name in sorted(stored.names)}
        if missing := shapes.keys() - names.keys():
            raise ModelLoadError(
                f"head {folder} has no tensor {min(missing)}, which its config.json asks for."
            )
        known = shapes.keys() | OPTIONAL
        unknown = [name for ours, name in names.items() if ours not in known and not ours.startswith(IGNORED)]
        if unknown:
            raise ModelLoadError(
                f"head {folder} has a tensor {unknown[0]} that its config.json has no use for."
            )
        return cls(folder, stored, names, shapes, dtype, device)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def get(self, name: str) -> Tensor:
        """In our dtype, on our device. Raises ModelLoadError for another shape, or values not finite."""
        stored = self.raw(name)
        if stored.shape != self.shapes[name]:
            raise ModelLoadError(
                f"{self.names[name]} of head {self.folder} has shape {list(stored.shape)}, "
                f"but its config.json asks for {list(self.shapes[name])}."
            )
        self.check_finite(name, stored)
        return stored.to(self.device, self.dtype, copy=True)

    def find(self, name: str) -> Tensor | None:
        """A bias or norm that some heads have."""
        return self.get(name) if name in self.shapes else None

    def raw(self, name: str) -> Tensor:
        """As stored."""
        return self.stored.get(self.names[name])

    def check_finite(self, name: str, stored: Tensor) -> None:
        if not stored.isfinite().all():
            raise ModelLoadError(f"{self.names[name]} of head {self.folder} has values that are not finite.")


def _our_name(name: str) -> str:
    for prefix, ours in _RENAMED.items():
        if name.startswith(prefix):
            name = ours + name.removeprefix(prefix)
    return name
