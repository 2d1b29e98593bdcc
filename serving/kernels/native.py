"""Typed entry points of the compiled CPU kernels. Shapes and layouts are described in cpu.cpp."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_float, c_int, c_int64, c_void_p
from enum import IntEnum
from pathlib import Path
from typing import Any

import torch

from serving.kernels.build import load_library

LANES = 16
DTYPES = (torch.bfloat16, torch.float32)
STEP_ARRAYS = (
    *("row_start", "num_new", "context", "is_chain", "done", "tree_start"),
    *("block_table", "parents", "positions", "slots"),
)


class Epilogue(IntEnum):
    """What a linear layer does with its result; the values are cpu.cpp's."""

    STORE = 0
    STORE_FLOAT32 = 1
    ADD_TO_OUTPUT = 2
    SILU_MUL = 3


class Shape(Structure):
    """Sizes of attention: heads, kv heads, head dimension, tokens per block, scale of the scores."""

    _fields_ = (
        ("heads", c_int64),
        ("kv_heads", c_int64),
        ("dim", c_int64),
        ("block_size", c_int64),
        ("scale", c_float),
    )


class Step(Structure):
    """Addresses of one packed step's int32 arrays."""

    _fields_ = (
        *((name, c_int64) for name in ("num_seqs", "num_rows", "max_blocks")),
        *((name, c_void_p) for name in STEP_ARRAYS),
    )


class Kernels:
    """The kernels for one element type. Raises BuildError where they cannot be built."""

    def __init__(self, dtype: torch.dtype, cache_dir: Path) -> None:
        assert dtype in DTYPES
        library, suffix = load_library(cache_dir), str(dtype).removeprefix("torch.")
        shape, step, pointer, size = POINTER(Shape), POINTER(Step), c_void_p, c_int64
        self.linear = _function(
            library, f"linear_{suffix}", *[pointer] * 4, c_float, *[pointer] * 2, *[size] * 4, c_int, c_int
        )
        self.attention = _function(
            library, f"attention_{suffix}", shape, step, *[pointer] * 6, c_float, pointer, size, c_int
        )
        self.move_slots = _function(library, f"move_slots_{suffix}", shape, size, size, *[pointer] * 4, size)
        self.norm_rows = _function(library, f"norm_rows_{suffix}", *[pointer] * 3, c_float, *[size] * 4)
        self.likeliest = _function(library, "likeliest_float32", pointer, *[size] * 4, *[pointer] * 2, c_int)
        self.couple = _function(
            library, "couple_float32", pointer, *[size] * 3, *[pointer] * 3, c_float, c_int
        )
        self.dtype = dtype


def _function(library: ctypes.CDLL, name: str, *argtypes: Any) -> Any:
    function = getattr(library, name)
    function.argtypes, function.restype = argtypes, None
    return function
