"""A head's checkpoint: what kind it is, its sizes, and how its parts are named."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from serving.errors import ModelLoadError
from serving.models.architecture import Architecture
from serving.models.hf_json import Json, flag, integer, read_json
from serving.models.rope import RopeConfig
from serving.models.weights import Weights

Kind = Literal["eagle3"]


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """What drafter and verifier must know of a head.

    layer: sizes of its one layer; hidden_size is the width of what it feeds back.
    feature_layers: target layers whose *input* residual streams are fused (EAGLE-3), in order.
    draft_vocab_size: rows of its lm_head.
    """

    kind: Kind
    layer: Architecture
    target_hidden_size: int
    target_vocab_size: int
    draft_vocab_size: int
    feature_layers: tuple[int, ...]
    fc_norm: bool

    @classmethod
    def from_folder(cls, folder: Path, target: Architecture) -> HeadConfig:
        """Raises ModelLoadError when the head is not for `target` or of a kind we do not run."""
        config = read_json(folder / "config.json")
        names = config.get("architectures") or ["?"]
        if "draft_vocab_size" not in config:
            raise ModelLoadError(f"{folder} is not an EAGLE-3 head ({names[0]} without draft_vocab_size).")
        head = cls(
            kind="eagle3",
            layer=_layer(config, target),
            target_hidden_size=integer(config, "target_hidden_size", integer(config, "hidden_size")),
            target_vocab_size=integer(config, "vocab_size"),
            draft_vocab_size=integer(config, "draft_vocab_size"),
            feature_layers=_feature_layers(config, target),
            fc_norm=flag(config, "fc_norm", False),
        )
        head.check(folder, target)
        return head

    def check(self, folder: Path, target: Architecture) -> None:
        if self.target_hidden_size != target.hidden_size:
            raise ModelLoadError(
                f"the head in {folder} is for a target of hidden size {self.target_hidden_size}, "
                f"not {target.hidden_size}."
            )
        if self.layer.hidden_size != target.hidden_size:
            raise ModelLoadError(
                f"the head in {folder} must be as wide as the target whose embeddings it uses."
            )
        if self.target_vocab_size < target.vocab_size:
            raise ModelLoadError(
                f"the head in {folder} is for a vocabulary of {self.target_vocab_size}, "
                f"not {target.vocab_size}."
            )


def _layer(config: Json, target: Architecture) -> Architecture:
    """The head's own layer, which is of the Llama kind whatever the target is."""
    layer = Architecture.from_hf({**config, "model_type": "llama", "num_hidden_layers": 1})
    named = "rope_theta" in config or "rope_scaling" in config or "rope_parameters" in config
    rope = layer.rope if named else RopeConfig(original_max_position=target.max_position_embeddings)
    return replace(layer, rope=rope, vocab_size=target.vocab_size)


def _feature_layers(config: Json, target: Architecture) -> tuple[int, ...]:
    """Layers by input. Written as inputs (2, L//2, L-3) or outputs (1, L//2-1, L-4): the first tells."""
    inner = config.get("eagle_config")
    written = inner.get("eagle_aux_hidden_state_layer_ids") if isinstance(inner, dict) else None
    written = written or config.get("eagle_aux_hidden_state_layer_ids")
    if written is None:
        return (2, target.num_layers // 2, target.num_layers - 3)
    layers = tuple(int(layer) for layer in written)
    return tuple(layer + 1 for layer in layers) if layers[0] == 1 else layers


@dataclass(frozen=True, slots=True)
class HeadWeights:
    """Tensors of a head by their published EAGLE-3 names."""

    folder: Path
    weights: Weights
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def open(cls, folder: Path, dtype: torch.dtype, device: torch.device) -> HeadWeights:
        return cls(folder, Weights.open(folder), dtype, device)

    def get(self, name: str, *shape: int) -> Tensor:
        """Raises ModelLoadError when it is missing, of another shape, or not finite."""
        stored = self.weights.get(name)
        if stored.shape != shape:
            raise ModelLoadError(
                f"{name} of the head in {self.folder} has shape {list(stored.shape)}, "
                f"but its config.json asks for {list(shape)}."
            )
        if not stored.isfinite().all():
            raise ModelLoadError(f"{name} of the head in {self.folder} has values that are not finite.")
        return stored.to(self.device, self.dtype, copy=True)

    def target_ids(self, config: HeadConfig) -> Tensor:
        """int64 [draft_vocab]: the target's id of each draft id, from the offsets `d2t`.

        All-zero offsets are the identity. Raises ModelLoadError for a smaller vocabulary without offsets
        and for offsets that leave the target's vocabulary or repeat a token.
        """
        ids = torch.arange(config.draft_vocab_size)
        if "d2t" in self.weights:
            ids = ids + self.weights.get("d2t").long()
        elif config.draft_vocab_size < config.layer.vocab_size:
            raise ModelLoadError(
                f"the head in {self.folder} drafts from {config.draft_vocab_size} tokens but has no d2t "
                "that says which ones."
            )
        kept = ids[ids < config.layer.vocab_size]
        if (
            int(ids.min()) < 0
            or len(torch.unique(kept)) != len(kept)
            or int(ids.max()) >= config.target_vocab_size
        ):
            raise ModelLoadError(f"d2t of the head in {self.folder} does not map to distinct target tokens.")
        return ids.to(self.device)
