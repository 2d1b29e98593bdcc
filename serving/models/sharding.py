"""Which part of a network is whose when several ranks share it.

Attention and the MLP are split by heads and by inner columns, so that each half of a layer needs one sum over
the ranks (Megatron-LM, arXiv 1909.08053, section 3); the vocabulary is split by tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from serving.errors import ConfigError
from serving.kernels.native import LANES
from serving.models.architecture import Architecture


class Part(NamedTuple):
    """Elements start .. stop - 1 of the whole, then zeros up to `width`, which is the same for all ranks."""

    start: int
    stop: int
    width: int


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of rank `rank` of `size`."""

    rank: int = 0
    size: int = 1

    def __post_init__(self) -> None:
        assert 0 <= self.rank < self.size

    def queries(self, a: Architecture) -> Part:
        """Rows of the query projection, columns of the output projection."""
        width = a.num_heads // self.size * a.head_dim
        return Part(self.rank * width, (self.rank + 1) * width, width)

    def keys(self, a: Architecture) -> Part:
        """Rows of the key and value projections. Fewer heads than ranks: neighbours have the same."""
        heads = max(1, a.num_kv_heads // self.size)
        first = self.rank * a.num_kv_heads // self.size
        return Part(first * a.head_dim, (first + heads) * a.head_dim, heads * a.head_dim)

    def inner(self, a: Architecture) -> Part:
        return self._strips(a.intermediate_size)

    def vocabulary(self, a: Architecture) -> Part:
        return self._strips(a.vocab_size)

    def of(self, a: Architecture) -> Architecture:
        """The network as this rank computes it: attention and cache of its own heads, its part of the MLP.

        Raises ConfigError where that cannot be split into so many.
        """
        if a.num_heads % self.size:
            raise ConfigError(
                f"engine.tensor_parallel_size {self.size} does not divide the model's {a.num_heads} "
                "attention heads"
            )
        if a.num_kv_heads % self.size and self.size % a.num_kv_heads:
            raise ConfigError(
                f"engine.tensor_parallel_size {self.size} neither divides the model's {a.num_kv_heads} "
                "key/value heads nor is a multiple of them"
            )
        return replace(
            a,
            num_heads=a.num_heads // self.size,
            num_kv_heads=max(1, a.num_kv_heads // self.size),
            intermediate_size=self.inner(a).width,
        )

    def _strips(self, total: int) -> Part:
        """Whole strips of the kernels for everyone; the last ranks may have less, or nothing but zeros."""
        if self.size == 1:
            return Part(0, total, total)
        width = -(-total // (self.size * LANES)) * LANES
        start = min(self.rank * width, total)
        return Part(start, min(start + width, total), width)


WHOLE = Shard()
