"""From a configuration to an engine: find the model, choose dtype and kernels, size the cache."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serving.config import ServeConfig
from serving.drafting.base import DraftChannel
from serving.engine.batch import Buckets, Packer, exact
from serving.engine.blocks import BlockManager
from serving.engine.controllers import Controllers
from serving.engine.engine import Engine
from serving.engine.features import FeatureCache
from serving.engine.followers import Followers
from serving.engine.head import HeadFiles, build_features, drafting_fingerprint, uses_features
from serving.engine.log_weights import log_weights
from serving.engine.network import build_network, choose_terms, max_model_len
from serving.engine.overlap import Overlap
from serving.engine.placement import choose_placement
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
from serving.models.ranks import Ranks
from serving.models.sharding import WHOLE
from serving.models.sources import resolve
from serving.types import ModelCard

log = logging.getLogger(__name__)


def build_engine(
    config: ServeConfig, channel: DraftChannel | None, incarnation: str, ranks: Ranks | None = None
) -> Engine:
    """Resolve, load and size everything.

    Raises ModelLoadError or ConfigError with one sentence for the operator. `channel` None: no speculation.
    ranks: of a tensor-parallel verifier, whose others build a `Rank` meanwhile; this is the first.
    """
    shard, size = ranks.shard if ranks else WHOLE, config.engine.tensor_parallel_size
    if shard.size != size:
        raise ConfigError(f"engine.tensor_parallel_size is {size}, but there are {shard.size} ranks")
    folder = resolve(config.model, config.cache_dir)
    architecture = Architecture.from_folder(folder)
    head = HeadFiles.find(config, folder) if uses_features(config.speculation) else None
    context = max_model_len(config.engine, architecture)
    placement = choose_placement(config, shard.of(architecture))
    if ranks is not None:
        ranks.share(choose_terms(folder, placement))
    feature_bytes = architecture.hidden_size * placement.dtype.itemsize if head else 0
    network = build_network(config, folder, placement, ranks, feature_bytes)
    blocks = BlockManager(network.num_blocks, config.engine.block_size)
    card = read_card(folder, config.model_name, architecture, context, placement.dtype_name, size)
    scheduler = Scheduler(
        blocks,
        max_num_seqs=config.engine.max_num_seqs,
        max_num_batched_tokens=config.engine.max_num_batched_tokens,
        max_model_len=context,
        enable_prefix_caching=config.engine.enable_prefix_caching,
    )
    packer = Packer(
        config.engine.max_num_batched_tokens,
        config.engine.max_num_seqs,
        blocks.blocks_for(context),
        config.engine.block_size,
        exact if placement.kernels else Buckets(config.engine.max_num_batched_tokens),
        scratch_slot=blocks.capacity_tokens,
    )
    slots = blocks.capacity_tokens + config.engine.block_size  # one block of them for padding
    # Every rank has the residual stream whole, so the head's side needs no other rank.
    features = build_features(head, placement, slots) if head else None
    followers = Followers(ranks, config.engine.block_size) if ranks else None
    runner = ModelRunner(network.decoder, network.attention, placement.device, features, followers)
    built_for = head.fingerprint if head else drafting_fingerprint(folder)
    speculator = _speculator(config, channel, incarnation, card, built_for, features) if channel else None
    log.info(
        "model %s on %s in %s with %d threads, %s kernels, %d KV blocks of %d tokens%s",
        config.model_name,
        placement.device,
        placement.dtype_name,
        placement.threads,
        "native" if placement.kernels else "torch",
        blocks.num_blocks,
        config.engine.block_size,
        f", {size} ranks" if ranks else "",
    )
    metrics = EngineMetrics(config.model_name)
    controllers = Controllers(
        lambda: step_profile(config.cache_dir, network.part, placement, runner, packer, scheduler)
    )
    sampler = Sampler(log_weights(config.cache_dir))
    overlap = Overlap(config.speculation.overlap_mode)
    engine = Engine(card, runner, scheduler, packer, speculator, overlap, controllers, sampler, metrics)
    engine.choose_m(config.speculation)
    return engine


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
