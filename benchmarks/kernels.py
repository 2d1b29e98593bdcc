"""`python -m benchmarks kernels`: the linear layers of one forward, CPU kernels against torch, in turns."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
import torch.nn.functional as F

from benchmarks.stats import paired_ratio
from benchmarks.table import render
from serving.config import ServeConfig
from serving.kernels.native import Kernels
from serving.models.architecture import Architecture
from serving.models.linear import NativeLinearOps
from serving.models.sources import resolve


def run(options: argparse.Namespace) -> None:
    config = ServeConfig.load({"model": options.model})
    a = Architecture.from_folder(resolve(config.model, config.cache_dir))
    dtype, threads = getattr(torch, options.dtype), config.engine.threads
    torch.set_num_threads(threads)
    ops = NativeLinearOps(a.rms_norm_eps, Kernels(dtype, config.cache_dir), threads)
    shapes = _shapes(a)
    weights = [torch.randn(*shape, dtype=torch.float32).to(dtype) for shape in shapes]
    packed = [ops.pack(weight) for weight in weights]
    table = []
    for rows in map(int, options.rows.split(",")):
        inputs = {k: torch.randn(rows, k, dtype=torch.float32).to(dtype) for _, k in shapes}

        def torch_pass(inputs: dict[int, torch.Tensor] = inputs) -> None:
            for weight in weights:
                F.linear(inputs[weight.shape[1]], weight)

        def native_pass(inputs: dict[int, torch.Tensor] = inputs) -> None:
            for layer in packed[:-1]:
                ops.norm_linear(inputs[layer.in_features], None, layer)
            ops.norm_logits(inputs[packed[-1].in_features], None, packed[-1])

        theirs, ours = _alternate(torch_pass, native_pass, options.repeats)
        ratio = paired_ratio(theirs, ours).value
        table.append((str(rows), f"{median(theirs):.1f}", f"{median(ours):.1f}", f"{ratio:.2f}x"))
    size = sum(weight.nbytes for weight in weights) / 1e6
    size = sum(weight.nbytes for weight in weights) / 1e6
    title = f"{config.model_name}, {options.dtype}, {threads} threads, {size:.0f} MB of weights"
    print(render(title, ("rows", "torch ms", "kernels ms", "ratio"), table))


def _shapes(a: Architecture) -> list[tuple[int, int]]:
    """[out, in] of every linear layer, in the order of a forward."""
    q, kv = a.num_heads * a.head_dim, a.num_kv_heads * a.head_dim
    hidden, inner = a.hidden_size, a.intermediate_size
    layer = [(q + 2 * kv, hidden), (hidden, q), (2 * inner, hidden), (hidden, inner)]
    return [*(layer * a.num_layers), (a.vocab_size, hidden)]


def _alternate(
    first: Callable[[], None], second: Callable[[], None], repeats: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of each, in turns, after a warm-up."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats + 1):
        for run_once, taken in zip((first, second), times, strict=True):
            started = time.perf_counter()
            run_once()
            taken.append((time.perf_counter() - started) * 1e3)
    return times[0][1:], times[1][1:]
