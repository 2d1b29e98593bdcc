"""Typed entry points of the kernels that look through one row of logits, always float32."""

from __future__ import annotations

from ctypes import c_float, c_int32, c_int64, c_void_p
from pathlib import Path

from serving.kernels.build import load_library

_ROW = (c_void_p, c_int64, c_float, c_float)  # float32 logits, how many, the largest, 1 / temperature


class RowKernels:
    """cpu.cpp's section on drawing a token. Raises BuildError where it cannot be built."""

    def __init__(self, cache_dir: Path) -> None:
        library = load_library(cache_dir)
        self.heavy = library.heavy_float32
        self.heavy.argtypes, self.heavy.restype = (*_ROW, c_float, *[c_void_p] * 3), c_int64
        self.contenders = library.contenders_float32
        self.contenders.argtypes = (*_ROW, c_void_p, c_float, c_int32, c_void_p, c_void_p)
        self.contenders.restype = c_int64
