"""What every rank of a verifier builds: its part of the target, with the cache that belongs to it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

from serving.config import EngineConfig, ServeConfig
from serving.engine.attention.base import AttentionBackend, kv_bytes_per_token
from serving.engine.placement import Placement, choose_placement
from serving.errors import ConfigError, ModelLoadError
from serving.models.architecture import Architecture
from serving.models.card import fingerprint
from serving.models.decoder import Decoder
from serving.models.linear import LinearOps
from serving.models.parallel import ParallelLinearOps
from serving.models.ranks import Ranks
from serving.models.sharding import WHOLE
from serving.models.sources import resolve
from serving.models.weights import Weights


class Network(NamedTuple):
    """part: what this rank computes of the model. num_blocks: the same on all ranks."""

    decoder: Decoder
    attention: AttentionBackend
    part: Architecture
    num_blocks: int


class Terms(NamedTuple):
    """What rank 0 finds out and the others keep to. fingerprint: of the files and the element type."""

    dtype: str
    fingerprint: str


def choose_terms(folder: Path, placement: Placement) -> Terms:
    return Terms(placement.dtype_name, fingerprint(folder, placement.dtype_name))


def agreed_placement(config: ServeConfig, ranks: Ranks) -> tuple[Path, Placement]:
    """On a rank but the first: the model's folder and where it runs, once rank 0 has both.

    Raises ModelLoadError where the model that is found here is another one.
    """
    terms: Terms = ranks.share(None)
    folder = resolve(config.model, config.cache_dir)
    if fingerprint(folder, terms.dtype) != terms.fingerprint:
        raise ModelLoadError(f"rank {ranks.shard.rank} finds another model in {folder} than rank 0 has.")
    part = ranks.shard.of(Architecture.from_folder(folder))
    return folder, choose_placement(config.model_copy(update={"dtype": terms.dtype}), part)


def build_network(
    config: ServeConfig, folder: Path, placement: Placement, ranks: Ranks | None, beside: int = 0
) -> Network:
    """By all ranks together: one that fails leaves the others waiting. Raises ModelLoadError, ConfigError.

    beside: bytes per token that this rank keeps beside keys and values.
    """
    shard = ranks.shard if ranks else WHOLE
    whole = Architecture.from_folder(folder)
    part, engine = shard.of(whole), config.engine
    ops = _ops(engine, whole, placement, ranks)
    decoder = Decoder.load(whole, Weights.open(folder), ops, placement.dtype, placement.device, shard)
    num_blocks = _num_blocks(engine, part, placement, beside)
    if ranks is not None:
        num_blocks = ranks.least(num_blocks)
    context = max_model_len(engine, whole)
    if num_blocks * engine.block_size < context:
        raise ConfigError(
            f"engine.max_model_len {context} does not fit the KV cache of {num_blocks * engine.block_size} "
            "tokens: lower it or raise engine.kv_cache_memory"
        )
    attention = placement.attention(
        part,
        [layer.head_norms for layer in decoder.layers],
        num_blocks=num_blocks,
        block_size=engine.block_size,
        max_model_len=context,
        deterministic=engine.deterministic,
    )
    return Network(decoder, attention, part, num_blocks)


def max_model_len(engine: EngineConfig, architecture: Architecture) -> int:
    limit = architecture.max_position_embeddings
    if engine.max_model_len is None:
        return limit
    if engine.max_model_len > limit:
        raise ConfigError(
            f"engine.max_model_len {engine.max_model_len} exceeds the model's context of {limit}"
        )
    return engine.max_model_len


def _ops(engine: EngineConfig, whole: Architecture, placement: Placement, ranks: Ranks | None) -> LinearOps:
    ops = placement.linear_ops(whole.rms_norm_eps, deterministic=engine.deterministic)
    return ops if ranks is None else ParallelLinearOps(ops, ranks, whole.vocab_size)


def _num_blocks(engine: EngineConfig, part: Architecture, placement: Placement, beside: int) -> int:
    memory, per_token = engine.kv_cache_memory, kv_bytes_per_token(part, placement.dtype)
    if placement.device.type == "cuda":  # the memory is for all that is cached
        free, total = torch.cuda.mem_get_info(placement.device)
        memory, per_token = int(free - total * (1 - engine.gpu_memory_utilization)), per_token + beside
    per_block = per_token * engine.block_size
    if memory < per_block:
        raise ConfigError("no memory is left for a single block of KV cache")
    return memory // per_block
