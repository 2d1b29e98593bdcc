"""Where and how the network runs: device, element type, kernels."""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

import torch

from serving.config import EngineConfig, ServeConfig
from serving.engine.attention.base import AttentionBackend
from serving.engine.attention.native import NativeAttention
from serving.engine.attention.torch_backend import RowInvariantAttention, TorchAttention
from serving.errors import ConfigError
from serving.kernels.ahead import LEAST_FOR_SPEED
from serving.kernels.build import BuildError, cpu_features
from serving.kernels.native import DTYPES, LANES, Kernels
from serving.models.architecture import Architecture
from serving.models.decoder import HeadNorms
from serving.models.linear import LinearOps, NativeLinearOps, RowInvariantLinearOps, TorchLinearOps

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where and how the network runs. kernels is None where plain torch does the work."""

    device: torch.device
    dtype: torch.dtype
    threads: int
    kernels: Kernels | None

    @property
    def dtype_name(self) -> str:
        return dtype_name(self.dtype)

    def linear_ops(self, eps: float, *, deterministic: bool = False) -> LinearOps:
        """deterministic: a row's result is the same whatever the others are. The kernels always do that."""
        if self.kernels is not None:
            return NativeLinearOps(eps, self.kernels, self.threads)
        return (RowInvariantLinearOps if deterministic else TorchLinearOps)(eps)

    def attention(
        self,
        architecture: Architecture,
        norms: Sequence[HeadNorms | None],
        *,
        num_blocks: int,
        block_size: int,
        max_model_len: int,
        deterministic: bool = False,
    ) -> AttentionBackend:
        """A backend with its cache, zeroed. deterministic: as in `linear_ops`."""
        sizes = {"num_blocks": num_blocks, "block_size": block_size, "max_model_len": max_model_len}
        if self.kernels is not None:
            return NativeAttention(architecture, self.kernels, norms, threads=self.threads, **sizes)
        backend = RowInvariantAttention if deterministic else TorchAttention
        return backend(architecture, norms, dtype=self.dtype, device=self.device, **sizes)


def choose_placement(config: ServeConfig, architecture: Architecture) -> Placement:
    """Device, dtype and kernels. On a CPU, dtype `auto` is decided by timing both on the model's shapes."""
    device = _device(config.engine)
    threads = config.engine.threads
    torch.set_num_threads(threads)
    dtypes = _dtypes(config.dtype, device)
    kernels = [_kernels(config, architecture, device, dtype) for dtype in dtypes]
    _report_refusals(config.engine, device, {each for each in kernels if isinstance(each, str)})
    candidates = [
        Placement(device, dtype, threads, each if isinstance(each, Kernels) else None)
        for dtype, each in zip(dtypes, kernels, strict=True)
    ]
    chosen = candidates[0] if len(candidates) == 1 else _fastest(config, architecture, candidates)
    if chosen.kernels is not None:
        # What is left to torch then is small, and its threads meet at barriers: one that the system has not
        # scheduled delays all. The kernels' own pool does not wait for such a thread.
        torch.set_num_threads(1)
    return chosen


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
) -> Kernels | str | None:
    """None if they are not wanted, or why they cannot be had."""
    if config.engine.attention_backend == "torch":
        return None
    reason = _no_native(architecture, device, dtype)
    if config.engine.attention_backend == "auto":
        reason = reason or _slow_native()
    if reason is not None:
        return reason
    try:
        return Kernels(dtype, config.cache_dir)
    except BuildError as error:
        return str(error)


def _report_refusals(engine: EngineConfig, device: torch.device, reasons: set[str]) -> None:
    for reason in sorted(reasons):
        if engine.attention_backend == "native":
            raise ConfigError(f"engine.attention_backend is native, but {reason}")
        if device.type == "cpu":
            log.warning("running without CPU kernels: %s", reason)


def _no_native(a: Architecture, device: torch.device, dtype: torch.dtype) -> str | None:
    """Why the CPU kernels cannot run this model; None if they can."""
    if device.type != "cpu":
        return f"the kernels are for CPUs, not {device.type}"
    if dtype not in DTYPES:
        return f"the kernels do not do {dtype_name(dtype)}"
    if any(size % LANES for size in (a.hidden_size, a.intermediate_size, a.head_dim)) or a.head_dim > 512:
        return f"hidden size, MLP size and head_dim must be multiples of {LANES} (head_dim at most 512)"
    return None


def _slow_native() -> str | None:
    """Why plain torch is faster than the CPU kernels on this machine; None if it is not, or not known."""
    if platform.machine() == "x86_64" and not set(cpu_features().split()) >= LEAST_FOR_SPEED:
        return "this processor has no AVX-512, without which torch is faster"
    return None


def _fastest(config: ServeConfig, architecture: Architecture, candidates: list[Placement]) -> Placement:
    """By timing, once per machine and model: a later start must not compute in another precision."""
    remembered = config.cache_dir / "dtype" / f"{machine_key(architecture, candidates)}.txt"
    if not remembered.exists():
        fastest = min(candidates, key=lambda placement: _time_linear(architecture, placement))
        try:
            remember(remembered, fastest.dtype_name)
        except OSError:  # a cache folder that cannot be written costs only the memory
            return fastest
    name = remembered.read_text()
    return next(placement for placement in candidates if placement.dtype_name == name)


def remember(path: Path, text: str) -> None:
    """Whoever is first decides for all, and nobody reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=path.parent) as file:
        file.write(text)
        file.flush()
        with suppress(FileExistsError):
            os.link(file.name, path)


def machine_key(architecture: Architecture, candidates: list[Placement]) -> str:
    ways = [(p.dtype_name, p.threads, p.kernels is not None) for p in candidates]
    parts = (architecture, ways, platform.machine(), cpu_features())
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _time_linear(architecture: Architecture, placement: Placement, repeats: int = 20) -> float:
    """Seconds of one MLP projection at a few rows: the least of `repeats`, which load disturbs least."""
    ops = placement.linear_ops(architecture.rms_norm_eps)
    outputs, inputs, dtype = architecture.intermediate_size, architecture.hidden_size, placement.dtype
    layer = ops.pack(torch.zeros(outputs, inputs, dtype=dtype))
    x, norm = torch.zeros(8, inputs, dtype=dtype), torch.ones(inputs, dtype=dtype)
    ops.norm_linear(x, norm, layer)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        ops.norm_linear(x, norm, layer)
        times.append(time.perf_counter() - start)
    return min(times)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
