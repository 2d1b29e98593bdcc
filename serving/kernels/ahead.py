"""CPU kernels compiled ahead of time, for machines without a compiler, as container images are.

`python -m serving.kernels` builds one library per level, beside this file. A machine loads the first level
that its processor can run; on any other the plain torch path runs.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from serving.kernels.build import BuildError, compile_library, find_compiler, source_key

FOLDER = Path(__file__).with_name("ahead")


class Level(NamedTuple):
    """A set of instructions: the compiler's flags, and the names that /proc/cpuinfo has for them."""

    name: str
    flags: tuple[str, ...]
    needs: frozenset[str]

    @property
    def library(self) -> str:
        """The file's name: a library of another source is never loaded."""
        return f"cpu-{self.name}-{source_key(*self.flags)}.so"


_V3 = frozenset({"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"})
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
# Best first: since Zen 4 and Sapphire Rapids; since Skylake-SP. A tile of the kernels fills the 32 registers
# of AVX-512: with AVX2's 16 it took 50 times as long (576 x 1536, 6 rows), and torch is faster.
LEVELS = (
    Level("x86-64-v4-bf16", ("-march=x86-64-v4", "-mavx512bf16"), _V4 | {"avx512_bf16"}),
    Level("x86-64-v4", ("-march=x86-64-v4",), _V4),
)
LEAST_FOR_SPEED = LEVELS[-1].needs
"""What an x86 processor must be able to do for the kernels to be faster than torch."""


def build_ahead(folder: Path) -> list[Path]:
    """Compile every level into `folder`. Raises BuildError."""
    compiler = find_compiler()
    if compiler is None:
        raise BuildError("no C++ compiler found")
    targets = [folder / level.library for level in LEVELS]
    for level, target in zip(LEVELS, targets, strict=True):
        compile_library(compiler, level.flags, target)
    return targets


def built_ahead(features: Collection[str], folder: Path | None = None) -> Path | None:
    """The best library in `folder` for a processor that can do `features`; None where there is none."""
    for level in LEVELS:
        path = (folder or FOLDER) / level.library
        if level.needs <= set(features) and path.exists():
            return path
    return None
