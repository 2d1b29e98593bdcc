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
from serving.engine.batch import Buckets, Packer, exact
from serving.engine.blocks import BlockManager
from serving.engine.controllers import Controllers
from serving.engine.engine import Engine
from serving.engine.features import FeatureCache
from serving.engine.head import HeadFiles, build_features, drafting_fingerprint, uses_features
from serving.engine.log_weights import log_weights
from serving.engine.placement import Placement, choose_placement
from serving.engine.runner import ModelRunner
from serving.engine.sampler import Sampler
from serving.engine.scheduler import Scheduler
from serving.engine.sequence import Sequence
from serving.engine.speculator import Speculator
from serving.engine.step_profile import step_profile
from serving.errors import ConfigError
from serving.metrics import EngineMetrics
from serving.models.architecture import Architecture
from serving.models.card import read_card
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
    head = HeadFiles.find(config, folder) if uses_features(config.speculation) else None
    placement = choose_placement(config, architecture)
    max_model_len = _max_model_len(config.engine, architecture)
    decoder = _load_decoder(folder, architecture, placement, config.engine.deterministic)
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
        deterministic=config.engine.deterministic,
    )
    scheduler = Scheduler(
        blocks,
        max_num_seqs=config.engine.max_num_seqs,
        max_num_batched_tokens=config.engine.max_num_batched_tokens,
        max_model_len=max_model_len,
        enable_prefix_caching=config.engine.enable_prefix_caching,
    )
    packer = Packer(
        config.engine.max_num_batched_tokens,
        config.engine.max_num_seqs,
        blocks.blocks_for(max_model_len),
        config.engine.block_size,
        exact if placement.kernels else Buckets(config.engine.max_num_batched_tokens),
        scratch_slot=blocks.capacity_tokens,
    )
    slots = blocks.capacity_tokens + config.engine.block_size  # one block of them for padding
    features = build_features(head, placement, slots) if head else None
    runner = ModelRunner(decoder, attention, placement.device, features)
    built_for = head.fingerprint if head else drafting_fingerprint(folder)
    speculator = _speculator(config, channel, incarnation, card, built_for, features) if channel else None
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
    metrics = EngineMetrics(config.model_name)
    controllers = Controllers(
        lambda: step_profile(config.cache_dir, architecture, placement, runner, packer, scheduler)
    )
    sampler = Sampler(log_weights(config.cache_dir))
    engine = Engine(card, runner, scheduler, packer, speculator, controllers, sampler, metrics)
    engine.choose_m(config.speculation)
    return engine


def _load_decoder(
    folder: Path, architecture: Architecture, placement: Placement, deterministic: bool
) -> Decoder:
    ops = placement.linear_ops(architecture.rms_norm_eps, deterministic=deterministic)
    return Decoder.load(architecture, Weights.open(folder), ops, placement.dtype, placement.device)


def _speculator(
    config: ServeConfig,
    channel: DraftChannel,
    incarnation: str,
    card: ModelCard,
    fingerprint: str,
    features: FeatureCache | None,
) -> Speculator:
    """fingerprint: of what its drafters must have been built for."""
    block_size = config.engine.block_size
    if features is None:
        return Speculator(config.speculation, channel, incarnation, fingerprint, card.vocab_size, None)

    def gather(seq: Sequence, start: int, end: int) -> NDArray[Any]:
        block, offset = np.divmod(np.arange(start, end), block_size)
        return features.gather(np.array(seq.block_table)[block] * block_size + offset)

    return Speculator(config.speculation, channel, incarnation, fingerprint, card.vocab_size, gather)


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
