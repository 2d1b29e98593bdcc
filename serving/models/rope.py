"""Rotary position embeddings: which frequencies a checkpoint was trained with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, cast, get_args

import torch

from serving.errors import ModelLoadError
from serving.models.hf_json import Json, flag, integer, number

RopeType = Literal["default", "linear", "dynamic", "llama3", "yarn"]
DEFAULT_THETA = 10_000.0


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Base and scaling of the rotation. Fields that `rope_type` does not use keep their defaults.

    original_max_position: positions the model was trained with, before scaling.
    attention_factor: multiplies cos and sin (yarn; 1 elsewhere).
    """

    rope_type: RopeType = "default"
    theta: float = DEFAULT_THETA
    factor: float = 1.0
    original_max_position: int = 2048
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float = 1.0

    @classmethod
    def from_hf(cls, config: Json) -> RopeConfig:
        """From a Hugging Face config.json. Raises ModelLoadError for a kind of scaling that we do not run.

        transformers 5 writes `rope_parameters` with `rope_theta` inside, transformers 4 a top-level
        `rope_theta` and `rope_scaling`, whose type is under `rope_type` or `type`.
        """
        scaling = _scaling(config)
        max_position = integer(config, "max_position_embeddings")
        theta = number(scaling, "rope_theta", number(config, "rope_theta", DEFAULT_THETA))
        rope_type = scaling.get("rope_type") or scaling.get("type") or "default"
        if rope_type not in get_args(RopeType):
            known = ", ".join(get_args(RopeType))
            raise ModelLoadError(f"rope scaling {rope_type!r} is not supported (supported: {known}).")
        if number(scaling, "partial_rotary_factor", number(config, "partial_rotary_factor", 1.0)) != 1.0:
            raise ModelLoadError("a partial_rotary_factor other than 1 is not supported.")
        common = cls(cast(RopeType, rope_type), theta, original_max_position=max_position)
        return _READERS[common.rope_type](common, config, scaling)


class Frequencies(NamedTuple):
    """inverse: float32 [head_dim // 2], radians per position; attention_factor multiplies cos and sin."""

    inverse: torch.Tensor
    attention_factor: float


def inverse_frequencies(rope: RopeConfig, head_dim: int, max_position: int) -> Frequencies:
    """Frequencies for positions 0 .. max_position - 1; equal to those of transformers.

    Dynamic NTK is the plain rotation up to `original_max_position`. Past it the base depends on the current
    length of the sequence, so that keys already in a cache would need another rotation with every token:
    a larger `max_position` raises ModelLoadError instead of giving answers that depend on scheduling.
    """
    assert head_dim % 2 == 0
    if rope.rope_type == "dynamic" and max_position > rope.original_max_position:
        raise ModelLoadError(
            f"dynamic rope scaling is supported up to max_position_embeddings ({rope.original_max_position}) "
            f"only: lower max_model_len from {max_position}."
        )
    # [head_dim // 2]
    plain = 1.0 / (rope.theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim))
    if rope.rope_type == "linear":
        plain = plain / rope.factor
    elif rope.rope_type == "llama3":
        plain = _llama3(rope, plain)
    elif rope.rope_type == "yarn":
        plain = _yarn(rope, head_dim)
    return Frequencies(plain, rope.attention_factor)


def _llama3(rope: RopeConfig, plain: torch.Tensor) -> torch.Tensor:
    """Long waves are slowed by `factor`, short ones kept, those between interpolated (Llama 3.1)."""
    turns = rope.original_max_position / (2 * math.pi / plain)
    keep = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    between = (1 - keep) * plain / rope.factor + keep * plain
    slowed = torch.where(turns < rope.low_freq_factor, plain / rope.factor, between)
    return torch.where(turns > rope.high_freq_factor, plain, slowed)


def _yarn(rope: RopeConfig, head_dim: int) -> torch.Tensor:
    """A ramp over dimensions from kept to slowed by `factor` (YaRN, arXiv 2309.00071, section 3.2)."""
    low = _yarn_dimension(rope, head_dim, rope.beta_fast)
    high = _yarn_dimension(rope, head_dim, rope.beta_slow)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    if low == high:
        high += 0.001
    ramp = ((torch.arange(head_dim // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    keep = 1 - ramp
    periods = rope.theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    return 1.0 / (rope.factor * periods) * (1 - keep) + 1.0 / periods * keep


def _yarn_dimension(rope: RopeConfig, head_dim: int, turns: float) -> float:
    """The (fractional) pair of dimensions that turns `turns` times within the original context."""
    period = rope.original_max_position / (turns * 2 * math.pi)
    return head_dim * math.log(period) / (2 * math.log(rope.theta))


def _scaling(config: Json) -> Json:
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if not isinstance(scaling, Mapping):
        raise ModelLoadError(f"the model's rope parameters must be a JSON object, not {scaling!r}.")
    if any(isinstance(value, Mapping) for value in scaling.values()):
        raise ModelLoadError("rope parameters that differ by layer are not supported.")
    return scaling


def _read_plain(rope: RopeConfig, config: Json, scaling: Json) -> RopeConfig:
    return rope


def _read_linear(rope: RopeConfig, config: Json, scaling: Json) -> RopeConfig:
    return replace(rope, factor=number(scaling, "factor"))


def _read_llama3(rope: RopeConfig, config: Json, scaling: Json) -> RopeConfig:
    low, high = number(scaling, "low_freq_factor"), number(scaling, "high_freq_factor")
    if low >= high:
        raise ModelLoadError("the model's low_freq_factor must be below its high_freq_factor.")
    return replace(
        rope,
        factor=number(scaling, "factor"),
        original_max_position=_original_max_position(rope, config, scaling),
        low_freq_factor=low,
        high_freq_factor=high,
    )


def _read_yarn(rope: RopeConfig, config: Json, scaling: Json) -> RopeConfig:
    original = _original_max_position(rope, config, scaling)
    factor = number(scaling, "factor", rope.original_max_position / original)
    return replace(
        rope,
        factor=factor,
        original_max_position=original,
        beta_fast=number(scaling, "beta_fast", rope.beta_fast),
        beta_slow=number(scaling, "beta_slow", rope.beta_slow),
        truncate=flag(scaling, "truncate", rope.truncate),
        attention_factor=number(scaling, "attention_factor", _yarn_attention_factor(factor, scaling)),
    )


_READERS = {
    "default": _read_plain,
    "dynamic": _read_plain,
    "linear": _read_linear,
    "llama3": _read_llama3,
    "yarn": _read_yarn,
}


def _original_max_position(rope: RopeConfig, config: Json, scaling: Json) -> int:
    inner = integer(scaling, "original_max_position_embeddings", rope.original_max_position)
    return integer(config, "original_max_position_embeddings", inner)


def _yarn_attention_factor(factor: float, scaling: Json) -> float:
    def magnitude(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0

    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        return magnitude(number(scaling, "mscale")) / magnitude(number(scaling, "mscale_all_dim"))
    return magnitude(1.0)
