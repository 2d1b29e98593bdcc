"""Gumbel noise as a pure function of (seed, choice index, position, token id).

Adding it to log-probabilities and taking the argmax draws from the distribution (Gumbel-max trick); a draw
that depends on nothing else is the same with or without speculation, in any batch and on any replica.
One hash serves numpy arrays and torch tensors: it uses operators only, and this module does not import torch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

IntArray = TypeVar("IntArray", NDArray[np.int64], "Tensor")

_WORD = 2**32 - 1
_LONG = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15  # 2**64 / golden ratio: consecutive integers end up far apart


class NoiseKey(NamedTuple):
    """Two 32-bit words that stand for (seed, choice index, position)."""

    first: int
    second: int


def noise_key(seed: int, choice_index: int, position: int) -> NoiseKey:
    """Key of the draw of the token at absolute `position` of one choice. `seed` has 64 bits."""
    state = 0
    for part in (seed, choice_index, position):
        state = _mixed64(state ^ part)
    return NoiseKey(state >> 32, state & _WORD)


def noise_bits(token_ids: IntArray, key: NoiseKey) -> IntArray:
    """Hash of each token id under `key`: int64 values in [0, 2**32), of the shape of `token_ids` (int64)."""
    bits = token_ids ^ key.first
    _mix32(bits)
    bits ^= key.second
    _mix32(bits)
    return bits


def gumbel(token_ids: NDArray[np.int64], key: NoiseKey) -> NDArray[np.float64]:
    """Noise of each token id, float64, within [GUMBEL_MIN, GUMBEL_MAX]."""
    uniform: NDArray[np.float64] = (noise_bits(token_ids, key) + 0.5) / 2**32
    return -np.log(-np.log(uniform))


def _mixed64(value: int) -> int:
    """Step of SplitMix64 (Steele, Lea, Flood 2014, figure 15): a bijection of 64-bit words."""
    value = (value + _GOLDEN) & _LONG
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & _LONG
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & _LONG
    return value ^ value >> 31


def _mix32(bits: IntArray) -> None:
    """In place, a bijection of 32-bit words in the shape of MurmurHash3's finaliser.

    Both factors are below 2**31, so that no product of an int64 overflows.
    """
    bits ^= bits >> 16
    bits *= 0x21F0AAAD
    bits &= _WORD
    bits ^= bits >> 15
    bits *= 0x735A2D97
    bits &= _WORD
    bits ^= bits >> 15


def _gumbel_of(bits: int) -> float:
    return -math.log(-math.log((bits + 0.5) / 2**32))


GUMBEL_MIN = _gumbel_of(0)
GUMBEL_MAX = _gumbel_of(_WORD)
