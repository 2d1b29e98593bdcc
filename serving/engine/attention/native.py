"""Attention by the compiled CPU kernels: rotation, cache write and tree attention in one call per layer."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from serving.engine.attention.base import rope_table
from serving.engine.batch import Batch
from serving.kernels.native import LANES, STEP_ARRAYS, Kernels, Shape, Step
from serving.models.architecture import Architecture
from serving.models.decoder import HeadNorms

MAX_TREE_ROWS = 512


class NativeAttention:
    """Keys [layers, blocks, kv heads, block_size / 16, D / unit, 16, unit], values [..., block_size, D].

    One block more than is handed out: what a forward that nobody needs writes goes there.

    A row's result depends on the keys it sees in their logical order alone: bit-equal between a draft tree,
    a prompt chunk and plain decoding.
    """

    def __init__(
        self,
        architecture: Architecture,
        kernels: Kernels,
        norms: Sequence[HeadNorms | None],
        *,
        num_blocks: int,
        block_size: int,
        max_model_len: int,
        threads: int,
    ) -> None:
        a = architecture
        assert a.head_dim % LANES == 0
        assert a.head_dim <= 512
        per_layer = (num_blocks + 1) * a.num_kv_heads * block_size * a.head_dim
        self._keys = torch.zeros(a.num_layers, per_layer, dtype=kernels.dtype)
        self._values = torch.zeros(a.num_layers, per_layer, dtype=kernels.dtype)
        self._architecture, self._kernels, self._threads = a, kernels, threads
        self._rope = rope_table(a, max_model_len)
        self._norms = [(n.query.data_ptr(), n.key.data_ptr()) if n else (None, None) for n in norms]
        self._keep = norms  # owns what the addresses above point to
        self._shape = Shape(a.num_heads, a.num_kv_heads, a.head_dim, block_size, a.head_dim**-0.5)
        # A tree at the end of the context looks past it, and keys are scored 16 at a time.
        self._max_slots = max_model_len + MAX_TREE_ROWS + LANES
        self._step = Step()

    def begin(self, batch: Batch) -> None:
        self._batch = batch  # keeps the arrays alive while the kernel reads them
        step = Step(batch.num_seqs, batch.num_rows, batch.block_table.shape[1])
        for name in STEP_ARRAYS:
            array = getattr(batch, name)
            assert array.flags.c_contiguous
            setattr(step, name, array.ctypes.data)
        self._step = step

    def __call__(self, layer: int, qkv: Tensor) -> Tensor:
        a = self._architecture
        out = torch.empty(qkv.shape[0], a.num_heads * a.head_dim, dtype=qkv.dtype)
        self._kernels.attention(
            ctypes.byref(self._shape),
            ctypes.byref(self._step),
            qkv.data_ptr(),
            self._keys[layer].data_ptr(),
            self._values[layer].data_ptr(),
            out.data_ptr(),
            *self._norms[layer],
            a.rms_norm_eps,
            self._rope.data_ptr(),
            self._max_slots,
            self._threads,
        )
        return out

    def move_slots(self, source: NDArray[np.int32], target: NDArray[np.int32]) -> None:
        layers, stride = self._keys.shape
        self._kernels.move_slots(
            ctypes.byref(self._shape),
            layers,
            stride,
            self._keys.data_ptr(),
            self._values.data_ptr(),
            source.ctypes.data,
            target.ctypes.data,
            len(source),
        )
