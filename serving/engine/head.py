"""The head that a configuration names: found, checked against its target, its part on the verifier loaded."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from serving.config import ServeConfig, SpeculationConfig
from serving.engine.features import FeatureCache
from serving.engine.placement import Placement
from serving.errors import ModelLoadError
from serving.models.architecture import Architecture
from serving.models.card import fingerprint
from serving.models.heads.config import HeadConfig
from serving.models.heads.formats import read_config
from serving.models.heads.fusion import Eagle3Fusion, Fusion, LastFeature
from serving.models.heads.weights import HeadWeights
from serving.models.sources import resolve_head
from serving.models.tokenizers import check_same_tokens
from serving.models.weights import Weights, files_with, read_weight_map

# What a head uses of its target's weights; only heads of EAGLE-1 and 2 use the second.
BORROWED = ("model.embed_tokens.weight", "lm_head.weight")


@dataclass(frozen=True, slots=True)
class HeadFiles:
    """A head that fits its target, and where both are."""

    folder: Path
    config: HeadConfig
    target_folder: Path
    target: Architecture

    @classmethod
    def find(cls, config: ServeConfig, target_folder: Path) -> HeadFiles:
        """Raises ModelLoadError when the configured head is not for the target, or not of the method."""
        speculation, target = config.speculation, Architecture.from_folder(target_folder)
        assert speculation.head is not None
        folder = resolve_head(speculation.head, config.cache_dir)
        if (folder / "tokenizer.json").exists():
            check_same_tokens(folder, target_folder)
        head = read_config(folder, target)
        if head.kind != speculation.method:
            raise ModelLoadError(f"head {folder} is for method {head.kind}, not {speculation.method}.")
        return cls(folder, head, target_folder, target)

    @property
    def fingerprint(self) -> str:
        """Of head and target. Not of a dtype: each side chooses its own, and features are converted."""
        return fingerprint(self.folder, "") + drafting_fingerprint(self.target_folder, BORROWED)

    def weights(self, placement: Placement) -> HeadWeights:
        return HeadWeights.open(self.folder, self.config, placement.dtype, placement.device)


def uses_features(speculation: SpeculationConfig) -> bool:
    """Whether the method's drafter is fed the target's features."""
    return speculation.method in ("eagle3", "eagle")


def drafting_fingerprint(target_folder: Path, tensors: Collection[str] = ()) -> str:
    """The target that a drafter must have been built for, by the files which drafters of it have: the index,
    and those that hold the tensors."""
    files = files_with(read_weight_map(target_folder), tensors)
    return fingerprint(target_folder, "", files)


def build_features(files: HeadFiles, placement: Placement, num_slots: int) -> FeatureCache:
    """The verifier's part of a head. Raises ModelLoadError."""
    width = files.target.hidden_size
    return FeatureCache(_fusion(files, placement), num_slots, width, placement.dtype, placement.device)


def _fusion(files: HeadFiles, placement: Placement) -> Fusion:
    if files.config.kind == "eagle3":
        ops = placement.linear_ops(files.config.layer.rms_norm_eps)
        return Eagle3Fusion.load(files.config, files.weights(placement), ops)
    norm = Weights.open(files.target_folder).get("model.norm.weight")
    norm = norm.to(placement.device, placement.dtype, copy=True)
    return LastFeature((files.target.num_layers,), norm, files.target.rms_norm_eps)
