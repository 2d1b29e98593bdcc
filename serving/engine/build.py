"""From a configuration to an engine: find the model, choose dtype and kernels, size the cache."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from serving.config import EngineConfig, ServeConfig
from serving.drafting.base import DraftChannel
from serving.engine.attention.base import kv_bytes_per_token
from serving.engine.batch import Packer
from serving.engine.blocks import BlockManager
from serving.engine.engine import Engine
from serving.engine.features import FeatureCache
from serving.engine.head import head_folder, load_fusion
from serving.engine.placement import Placement, choose_placement
from serving.engine.runner import ModelRunner
from serving.engine.scheduler import Scheduler
from serving.engine.sequence import Sequence
from serving.engine.speculator import Speculator
from serving.errors import ConfigError
from serving.metrics import EngineMetrics
from serving.models.architecture import Architecture
from serving.models.card import fingerprint, read_card
from serving.models.decoder import Decoder
from serving.models.sources import resolve
from serving.models.weights import Weights
from serving.types import ModelCard

log = logging.getLogger(__name__)


def build_engine(config: ServeConfig, channel: DraftChannel | None, incarnation: str) -> Engine:
    """Resolve, load and size everything.

    Raises ModelLoadError or ConfigError with one sentence for the operator. `channel` None: no speculation.
    """
    folder = resolve(config.model, config.cache_dir)
    architecture = Architecture.from_folder(folder)
    placement = choose_placement(config, architecture)
    max_model_len = _max_model_len(config.engine, architecture)
    decoder = _load_decoder(folder, architecture, placement)
    blocks = BlockManager(_num_blocks(config.engine, architecture, placement), config.engine.block_size)
    if blocks.capacity_tokens < max_model_len:
        raise ConfigError(
            f"engine.max_model_len {max_model_len} does not fit the KV cache of {blocks.capacity_tokens} "
            "tokens: lower it or raise engine.kv_cache_memory"
        )
    card = read_card(folder, config.model_name, architecture, max_model_len, placement.dtype_name)
    attention = placement.attention(
        architecture,
        [layer.head_norms for layer in decoder.layers],
        num_blocks=blocks.num_blocks,
        block_size=config.engine.block_size,
        max_model_len=max_model_len,
    )
    scheduler = Scheduler(
        blocks,
        max_num_seqs=config.engine.max_num_seqs,
        max_num_batched_tokens=config.engine.max_num_batched_tokens,
        max_model_len=max_model_len,
    )
    packer = Packer(
        config.engine.max_num_batched_tokens,
        config.engine.max_num_seqs,
        blocks.blocks_for(max_model_len),
        config.engine.block_size,
    )
    features = _feature_cache(config, architecture, placement, blocks)
    runner = ModelRunner(decoder, attention, placement.device, features)
    speculator = _speculator(config, channel, incarnation, card, placement, features) if channel else None
    log.info(
        "model %s on %s in %s with %d threads, %s kernels, %d KV blocks of %d tokens",
        config.model_name,
        placement.device,
        placement.dtype_name,
        placement.threads,
        "native" if placement.kernels else "torch",
        blocks.num_blocks,
        config.engine.block_size,
    )
    return Engine(card, runner, scheduler, packer, speculator, EngineMetrics(config.model_name))


def _load_decoder(folder: Path, architecture: Architecture, placement: Placement) -> Decoder:
    ops = placement.linear_ops(architecture.rms_norm_eps)
    return Decoder.load(architecture, Weights.open(folder), ops, placement.dtype, placement.device)


def _feature_cache(
    config: ServeConfig, architecture: Architecture, placement: Placement, blocks: BlockManager
) -> FeatureCache | None:
    folder = head_folder(config)
    if folder is None:
        return None
    fusion = load_fusion(folder, architecture, placement)
    width, slots = architecture.hidden_size, blocks.capacity_tokens
    return FeatureCache(fusion, slots, width, placement.dtype, placement.device)


def _speculator(
    config: ServeConfig,
    channel: DraftChannel,
    incarnation: str,
    card: ModelCard,
    placement: Placement,
    features: FeatureCache | None,
) -> Speculator:
    """A head's drafter must have the same head; any drafter that needs only tokens will do."""
    folder, block_size = head_folder(config), config.engine.block_size
    if folder is None or features is None:
        return Speculator(config.speculation, channel, incarnation, card.fingerprint, card.vocab_size, None)

    def gather(seq: Sequence, start: int, end: int) -> NDArray[Any]:
        block, offset = np.divmod(np.arange(start, end), block_size)
        return features.gather(np.array(seq.block_table)[block] * block_size + offset)

    head = fingerprint(folder, placement.dtype_name)
    return Speculator(config.speculation, channel, incarnation, head, card.vocab_size, gather)


def _max_model_len(engine: EngineConfig, architecture: Architecture) -> int:
    limit = architecture.max_position_embeddings
    if engine.max_model_len is None:
        return limit
    if engine.max_model_len > limit:
        raise ConfigError(
            f"engine.max_model_len {engine.max_model_len} exceeds the model's context of {limit}"
        )
    return engine.max_model_len


def _num_blocks(engine: EngineConfig, architecture: Architecture, placement: Placement) -> int:
    memory = engine.kv_cache_memory
    if placement.device.type == "cuda":
        free, total = torch.cuda.mem_get_info(placement.device)
        memory = int(free - total * (1 - engine.gpu_memory_utilization))
    per_block = kv_bytes_per_token(architecture, placement.dtype) * engine.block_size
    if memory < per_block:
        raise ConfigError("no memory is left for a single block of KV cache")
    return memory // per_block
