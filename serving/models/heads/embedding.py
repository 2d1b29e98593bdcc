"""The embeddings that a head is fed: the target's, unless it brings its own."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from serving.errors import ModelLoadError
from serving.models.heads.config import HeadConfig
from serving.models.heads.weights import EMBEDDING, HeadWeights

SAMPLED_ROWS = 256


def head_embedding(weights: HeadWeights, head: HeadConfig, target: Tensor) -> Tensor:
    """[at least the target's vocabulary, d]. target: the target's, as stored, [vocab, target's d].

    An EAGLE-1/2 head's own are a copy of its target's, so other ones belong to another model: refused.
    Raises ModelLoadError.
    """
    width = head.layer.hidden_size
    if EMBEDDING not in weights:
        if width != target.shape[1]:
            raise ModelLoadError(
                f"head {weights.folder} is {width} wide and has no embeddings of its own, "
                f"but the target's are {target.shape[1]} wide."
            )
        return target
    own = weights.raw(EMBEDDING)
    if own.shape != (head.vocab_size, width):
        raise ModelLoadError(
            f"{EMBEDDING} of head {weights.folder} has shape {list(own.shape)}, but its config.json asks for "
            f"{[head.vocab_size, width]}."
        )
    if head.kind == "eagle":
        if not _alike(own, target):
            raise ModelLoadError(f"head {weights.folder} is for another model: its embeddings differ.")
        return target
    weights.check_finite(EMBEDDING, own)
    return F.pad(own, (0, 0, 0, max(0, len(target) - len(own))))


def _alike(own: Tensor, target: Tensor) -> bool:
    """Equal but for rounding, in a sample of the tokens that both have."""
    common = min(len(own), len(target))
    rows = torch.arange(0, common, max(1, common // SAMPLED_ROWS))
    return torch.allclose(own[rows].float(), target[rows].float(), rtol=0.02, atol=1e-3)
