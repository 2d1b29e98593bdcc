"""From a configuration to a drafter that runs a network: a head with what it borrows, or a small model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from serving.config import ServeConfig, SpeculationConfig
from serving.engine.attention.base import kv_bytes_per_token
from serving.engine.blocks import BlockManager
from serving.engine.draft_network import DraftNetwork, Feeding, feed_pairs, feed_tokens
from serving.engine.draft_sequences import DraftSequences
from serving.engine.head import BORROWED, HeadFiles, drafting_fingerprint, uses_features
from serving.engine.head_drafter import HeadDrafter
from serving.engine.placement import Placement, choose_placement
from serving.errors import ModelLoadError
from serving.models.architecture import Architecture
from serving.models.decoder import Decoder, HeadNorms
from serving.models.draft_model import DraftModel
from serving.models.heads.config import PADDING
from serving.models.heads.eagle import EagleHead
from serving.models.heads.eagle3 import Eagle3Head
from serving.models.heads.embedding import head_embedding
from serving.models.sources import resolve
from serving.models.tokenizers import check_same_tokens
from serving.models.weights import Weights
from serving.spec.growth import DynamicGrowth, Growth
from serving.spec.static_growth import static_growth

DRAFT_BLOCK_SIZE = 16


def build_network_drafter(config: ServeConfig, growth: Growth | None = None) -> HeadDrafter:
    """Raises ModelLoadError when the head or the draft model cannot be loaded, or is not for the target.

    growth: of its trees; None: as the configuration says.
    """
    growth = growth or _growth(config.speculation)
    borrows = uses_features(config.speculation)
    target_folder = resolve(config.model, config.cache_dir, BORROWED if borrows else ())
    if borrows:
        files = HeadFiles.find(config, target_folder)
        return _drafter(config, _load_head(config, files), files.target, growth)
    target = Architecture.from_folder(target_folder)
    return _drafter(config, _load_model(config, target_folder, target), target, growth)


@dataclass(frozen=True, slots=True)
class _Network:
    """A network with what it takes to run it. layers: whose keys and values are cached."""

    network: DraftNetwork
    feeding: Feeding
    layers: Architecture
    norms: list[HeadNorms | None]
    placement: Placement
    fingerprint: str


def _load_head(config: ServeConfig, files: HeadFiles) -> _Network:
    layer, target = files.config.layer, files.target
    placement = choose_placement(config, layer)
    ops = placement.linear_ops(layer.rms_norm_eps)
    weights, borrowed = files.weights(placement), _Borrowed.open(files.target_folder, target)
    embedding = head_embedding(weights, files.config, borrowed.embedding).to(placement.device)
    network: Eagle3Head | EagleHead
    if files.config.kind == "eagle3":
        network = Eagle3Head.load(files.config, weights, embedding, target.vocab_size, ops)
    else:
        network = EagleHead.load(weights, embedding, borrowed.lm_head, ops)
    norms = [network.layer.head_norms]
    return _Network(network, feed_pairs, layer, norms, placement, files.fingerprint)


def _load_model(config: ServeConfig, target_folder: Path, target: Architecture) -> _Network:
    assert config.speculation.draft_model is not None
    folder = resolve(config.speculation.draft_model, config.cache_dir)
    draft = Architecture.from_folder(folder)
    check_same_tokens(folder, target_folder)
    if abs(draft.vocab_size - target.vocab_size) >= PADDING:
        raise ModelLoadError(
            f"draft model {folder} has a vocabulary of {draft.vocab_size}, the target of {target.vocab_size}."
        )
    placement = choose_placement(config, draft)
    ops = placement.linear_ops(draft.rms_norm_eps)
    decoder = Decoder.load(draft, Weights.open(folder), ops, placement.dtype, placement.device)
    common = torch.arange(
        min(draft.vocab_size, target.vocab_size), dtype=torch.int32, device=placement.device
    )
    norms = [layer.head_norms for layer in decoder.layers]
    network = DraftModel(decoder, common)
    return _Network(network, feed_tokens, draft, norms, placement, drafting_fingerprint(target_folder))


def _drafter(config: ServeConfig, loaded: _Network, target: Architecture, growth: Growth) -> HeadDrafter:
    speculation = config.speculation
    # The target's context whatever the network's own is: past that, drafts get worse and nothing else
    # happens (case S13). Trees near the end of the context look past it.
    max_positions = (config.engine.max_model_len or target.max_position_embeddings) + speculation.max_depth
    per_block = kv_bytes_per_token(loaded.layers, loaded.placement.dtype) * DRAFT_BLOCK_SIZE
    num_blocks = max(1, speculation.draft_kv_cache_memory // per_block)
    attention = loaded.placement.attention(
        loaded.layers,
        loaded.norms,
        num_blocks=num_blocks,
        block_size=DRAFT_BLOCK_SIZE,
        max_model_len=max_positions,
    )
    sequences = DraftSequences(BlockManager(num_blocks, DRAFT_BLOCK_SIZE), speculation.lease_s)
    return HeadDrafter(
        loaded.network,
        loaded.feeding,
        growth,
        attention,
        sequences,
        loaded.fingerprint,
        max_positions,
        speculation.coupling_spread if speculation.coupled else None,
    )


def _growth(config: SpeculationConfig) -> Growth:
    if config.tree == "static":
        return static_growth(config.static_tree)
    return DynamicGrowth(config.beam, config.min_level_reach)


@dataclass(frozen=True, slots=True)
class _Borrowed:
    """What heads use of their target, as stored: [vocab, d] each."""

    embedding: Tensor
    lm_head: Tensor

    @classmethod
    def open(cls, folder: Path, target: Architecture) -> _Borrowed:
        embed_tokens, lm_head = BORROWED
        weights = Weights.open(folder, BORROWED)
        embedding = weights.get(embed_tokens)
        return cls(embedding, embedding if target.tie_word_embeddings else weights.get(lm_head))
