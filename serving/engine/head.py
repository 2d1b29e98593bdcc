"""Loading a draft head: its fusion into the verifier, its network into a drafter."""

from __future__ import annotations

from pathlib import Path

from serving.config import ServeConfig
from serving.engine.attention.base import kv_bytes_per_token
from serving.engine.blocks import BlockManager
from serving.engine.head_drafter import HeadDrafter
from serving.engine.placement import Placement, choose_placement
from serving.models.architecture import Architecture
from serving.models.card import fingerprint
from serving.models.heads.checkpoint import HeadConfig, HeadWeights
from serving.models.heads.eagle3 import Eagle3Head
from serving.models.heads.fusion import FeatureFusion
from serving.models.sources import resolve
from serving.models.weights import Weights

DRAFT_BLOCK_SIZE = 16


def head_folder(config: ServeConfig) -> Path | None:
    """Where the configured method's head is; None for methods without one."""
    if config.speculation.method != "eagle3":
        return None
    assert config.speculation.head is not None
    return Path(config.speculation.head).expanduser()


def load_fusion(folder: Path, target: Architecture, placement: Placement) -> FeatureFusion:
    """The verifier's part. Raises ModelLoadError when the head is not for `target`."""
    head = HeadConfig.from_folder(folder, target)
    weights = HeadWeights.open(folder, placement.dtype, placement.device)
    return FeatureFusion.load(head, weights, placement.linear_ops(head.layer.rms_norm_eps))


def build_head_drafter(config: ServeConfig) -> HeadDrafter:
    """The drafter's part, with the target's embeddings. Raises ModelLoadError."""
    folder = head_folder(config)
    assert folder is not None
    target_folder = resolve(config.model, config.cache_dir)
    target = Architecture.from_folder(target_folder)
    head = HeadConfig.from_folder(folder, target)
    placement = choose_placement(config, target)
    weights = HeadWeights.open(folder, placement.dtype, placement.device)
    embedding = Weights.open(target_folder).get("model.embed_tokens.weight").to(placement.device)
    network = Eagle3Head.load(head, weights, embedding, placement.linear_ops(head.layer.rms_norm_eps))
    per_token = kv_bytes_per_token(head.layer, placement.dtype)
    num_blocks = max(1, config.speculation.draft_kv_cache_memory // (per_token * DRAFT_BLOCK_SIZE))
    attention = placement.attention(
        head.layer,
        [None],
        num_blocks=num_blocks,
        block_size=DRAFT_BLOCK_SIZE,
        # Trees near the end of the context look past it.
        max_model_len=target.max_position_embeddings + config.speculation.max_depth,
    )
    return HeadDrafter(
        network,
        attention,
        BlockManager(num_blocks, DRAFT_BLOCK_SIZE),
        fingerprint(folder, placement.dtype_name),
        beam=config.speculation.beam,
        lease_s=config.speculation.lease_s,
    )
