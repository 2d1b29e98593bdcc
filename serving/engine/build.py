"""From a configuration to an engine: find the model, choose dtype and kernels, size the cache."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from serving.config import EngineConfig, ServeConfig
from serving.drafting.base import DraftChannel
from serving.engine.attention.base import AttentionBackend, kv_bytes_per_token
from serving.engine.attention.native import NativeAttention
from serving.engine.attention.torch_backend import TorchAttention
from serving.engine.batch import Packer
from serving.engine.blocks import BlockManager
from serving.engine.engine import Engine
from serving.engine.runner import ModelRunner
from serving.engine.scheduler import Scheduler
from serving.engine.speculator import Speculator
from serving.errors import ConfigError
from serving.kernels.build import BuildError
from serving.kernels.native import DTYPES, LANES, Kernels
from serving.metrics import EngineMetrics
from serving.models.architecture import Architecture
from serving.models.card import read_card
from serving.models.decoder import Decoder
from serving.models.linear import LinearOps, NativeLinearOps, TorchLinearOps
from serving.models.sources import resolve
from serving.models.weights import Weights

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where and how the network runs. kernels is None where plain torch does the work."""

    device: torch.device
    dtype: torch.dtype
    threads: int
    kernels: Kernels | None


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
    card = read_card(folder, config.model_name, architecture, max_model_len, _dtype_name(placement.dtype))
    attention = _attention(config.engine, architecture, decoder, placement, blocks.num_blocks, max_model_len)
    scheduler = Scheduler(
        blocks,
        max_num_seqs=config.engine.max_num_seqs,
        max_num_batched_tokens=config.engine.max_num_batched_tokens,
        max_model_len=max_model_len,
    )
    speculator = Speculator(config.speculation, channel, incarnation, card.fingerprint) if channel else None
    packer = Packer(
        config.engine.max_num_batched_tokens,
        config.engine.max_num_seqs,
        blocks.blocks_for(max_model_len),
        config.engine.block_size,
    )
    runner = ModelRunner(decoder, attention, placement.device)
    log.info(
        "model %s on %s in %s with %d threads, %s kernels, %d KV blocks of %d tokens",
        config.model_name,
        placement.device,
        _dtype_name(placement.dtype),
        placement.threads,
        "native" if placement.kernels else "torch",
        blocks.num_blocks,
        config.engine.block_size,
    )
    return Engine(card, runner, scheduler, packer, speculator, EngineMetrics(config.model_name))


def choose_placement(config: ServeConfig, architecture: Architecture) -> Placement:
    """Device, dtype and kernels. On a CPU, dtype `auto` is decided by timing both on the model's shapes."""
    device = _device(config.engine)
    threads = config.engine.num_threads or os.cpu_count() or 1
    torch.set_num_threads(threads)
    candidates = [
        Placement(device, dtype, threads, _kernels(config, architecture, device, dtype))
        for dtype in _dtypes(config.dtype, device)
    ]
    if len(candidates) == 1:
        return candidates[0]
    return min(candidates, key=lambda placement: _time_linear(architecture, placement))


def _device(engine: EngineConfig) -> torch.device:
    if engine.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("engine.device is cuda, but torch sees no CUDA device")
    if engine.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(engine.device)


def _dtypes(wanted: str, device: torch.device) -> list[torch.dtype]:
    if wanted != "auto":
        return [getattr(torch, wanted)]
    if device.type == "cuda":
        return [torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16]
    return [torch.bfloat16, torch.float32]


def _kernels(
    config: ServeConfig, architecture: Architecture, device: torch.device, dtype: torch.dtype
) -> Kernels | None:
    backend, reason = config.engine.attention_backend, _no_native(architecture, device, dtype)
    if backend == "torch":
        return None
    if reason is None:
        try:
            return Kernels(dtype, config.cache_dir)
        except BuildError as error:
            reason = str(error)
    if backend == "native":
        raise ConfigError(f"engine.attention_backend is native, but {reason}")
    if device.type == "cpu":
        log.warning("running without CPU kernels: %s", reason)
    return None


def _no_native(a: Architecture, device: torch.device, dtype: torch.dtype) -> str | None:
    """Why the CPU kernels cannot run this model; None if they can."""
    if device.type != "cpu":
        return f"the kernels are for CPUs, not {device.type}"
    if dtype not in DTYPES:
        return f"the kernels do not do {_dtype_name(dtype)}"
    if any(size % LANES for size in (a.hidden_size, a.intermediate_size, a.head_dim)) or a.head_dim > 512:
        return f"hidden size, MLP size and head_dim must be multiples of {LANES} (head_dim at most 512)"
    return None


def _time_linear(architecture: Architecture, placement: Placement) -> float:
    """Seconds of one MLP projection at a few rows: the median of 20."""
    ops = _linear_ops(architecture, placement)
    outputs, inputs, dtype = architecture.intermediate_size, architecture.hidden_size, placement.dtype
    layer = ops.pack(torch.zeros(outputs, inputs, dtype=dtype))
    x, norm = torch.zeros(8, inputs, dtype=dtype), torch.ones(inputs, dtype=dtype)
    return _median_time(lambda: ops.norm_linear(x, norm, layer))


def _median_time(run: Callable[[], Tensor], repeats: int = 20) -> float:
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times)[repeats // 2]


def _linear_ops(architecture: Architecture, placement: Placement) -> LinearOps:
    if placement.kernels is None:
        return TorchLinearOps(architecture.rms_norm_eps)
    return NativeLinearOps(architecture.rms_norm_eps, placement.kernels, placement.threads)


def _load_decoder(folder: Path, architecture: Architecture, placement: Placement) -> Decoder:
    ops = _linear_ops(architecture, placement)
    return Decoder.load(architecture, Weights.open(folder), ops, placement.dtype, placement.device)


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


def _attention(
    engine: EngineConfig,
    architecture: Architecture,
    decoder: Decoder,
    placement: Placement,
    num_blocks: int,
    max_model_len: int,
) -> AttentionBackend:
    norms = [layer.head_norms for layer in decoder.layers]
    sizes = {"num_blocks": num_blocks, "block_size": engine.block_size, "max_model_len": max_model_len}
    if placement.kernels is not None:
        return NativeAttention(architecture, placement.kernels, norms, threads=placement.threads, **sizes)
    return TorchAttention(architecture, norms, dtype=placement.dtype, device=placement.device, **sizes)


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
