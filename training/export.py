"""Heads on disk, in the layout that SpecForge and SGLang use: config.json and model.safetensors in bf16."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from serving.models.hf_json import read_json
from serving.models.weights import Weights
from training.errors import TrainingError
from training.head import Eagle1Head, Eagle3Head, Head
from training.head_config import HeadConfig
from training.vocabulary import DraftVocabulary


@dataclass(frozen=True, slots=True)
class TrainedHead:
    """A head with the vocabulary it proposes from."""

    head: Head
    vocabulary: DraftVocabulary

    def save(self, folder: Path) -> None:
        """Write the checkpoint that a drafter loads."""
        tensors = {
            name: tensor.detach().to("cpu", torch.bfloat16).contiguous()
            for name, tensor in self.head.state_dict().items()
        }
        if self.head.config.kind == "eagle3":
            tensors |= {"d2t": self.vocabulary.d2t, "t2d": self.vocabulary.t2d}
        folder.mkdir(parents=True, exist_ok=True)
        # safetensors writes in place: a reader must never see half a file.
        temporary = folder / "model.safetensors.tmp"
        save_file(tensors, temporary, metadata={"format": "pt"})
        temporary.replace(folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(self.head.config.to_json(), indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path, final_norm: Tensor, max_positions: int) -> TrainedHead:
        """What `save` writes. Raises TrainingError or ModelLoadError."""
        config = HeadConfig.from_json(read_json(folder / "config.json"))
        weights = Weights.open(folder)
        head = build_head(config, final_norm, max_positions)
        _load(head, {name: weights.get(name) for name in weights.names - {"d2t", "t2d"}}, folder)
        return cls(head, read_vocabulary(folder))


def read_vocabulary(folder: Path) -> DraftVocabulary:
    """What the head in `folder` proposes from."""
    config = HeadConfig.from_json(read_json(folder / "config.json"))
    if config.kind == "eagle1":
        return DraftVocabulary.full(config.vocab_size)
    return DraftVocabulary.from_d2t(Weights.open(folder).get("d2t"), config.vocab_size)


def build_head(config: HeadConfig, final_norm: Tensor, max_positions: int) -> Head:
    """Untrained. final_norm: [d], the target's."""
    if config.kind == "eagle3":
        return Eagle3Head(config, max_positions)
    return Eagle1Head(config, max_positions, final_norm)


def _load(head: Head, tensors: dict[str, Tensor], folder: Path) -> None:
    try:
        head.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    except RuntimeError as error:
        raise TrainingError(
            f"{folder} does not hold the head that its config.json describes: {error}"
        ) from None
