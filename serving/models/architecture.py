"""The shape of a decoder of the Llama family, read from a Hugging Face configuration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from serving.errors import ModelLoadError
from serving.models.hf_json import Json, flag, integer, number, read_json
from serving.models.rope import RopeConfig


class _Family(NamedTuple):
    """What a model_type fixes. attention_bias, mlp_bias: whether the configuration's field counts."""

    attention_bias: bool = False
    mlp_bias: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    head_dim: int | None = None  # when the configuration has none; None: hidden_size / heads
    sliding_window: int | None = None  # when the configuration has none


_FAMILIES = {
    "llama": _Family(attention_bias=True, mlp_bias=True),
    "mistral": _Family(sliding_window=4096),
    "qwen2": _Family(qkv_bias=True),
    "qwen3": _Family(attention_bias=True, qk_norm=True, head_dim=128),
}


@dataclass(frozen=True, slots=True)
class Architecture:
    """Everything the network needs to know besides its weights. Sizes are elements, positions are tokens.

    max_position_embeddings: the model's context limit (with yarn: after scaling).
    eos_token_ids: sorted, without repeats; empty when the model names none.
    """

    model_type: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    rms_norm_eps: float
    tie_word_embeddings: bool
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    qk_norm: bool
    rope: RopeConfig
    max_position_embeddings: int
    eos_token_ids: tuple[int, ...]
    bos_token_id: int | None

    def __post_init__(self) -> None:
        assert self.num_heads % self.num_kv_heads == 0
        assert self.head_dim % 2 == 0

    @classmethod
    def from_folder(cls, folder: Path) -> Architecture:
        """From config.json and, when there is one, generation_config.json."""
        config, generation = read_json(folder / "config.json"), folder / "generation_config.json"
        return cls.from_hf(config, read_json(generation) if generation.exists() else None)

    @classmethod
    def from_hf(cls, config: Json, generation_config: Json | None = None) -> Architecture:
        """Raises ModelLoadError, in one sentence, for a model that we do not run."""
        model_type = config.get("model_type")
        family = _FAMILIES.get(model_type) if isinstance(model_type, str) else None
        if family is None:
            raise ModelLoadError(
                f"model type {model_type!r} is not supported (supported: {', '.join(sorted(_FAMILIES))})."
            )
        _refuse_unsupported(config, family)
        rope = RopeConfig.from_hf(config)
        num_heads = integer(config, "num_attention_heads")
        attention_bias = family.attention_bias and flag(config, "attention_bias", False)
        return cls(
            model_type=str(model_type),
            num_layers=integer(config, "num_hidden_layers"),
            hidden_size=integer(config, "hidden_size"),
            num_heads=num_heads,
            num_kv_heads=_num_kv_heads(config, num_heads),
            head_dim=_head_dim(config, family, num_heads),
            intermediate_size=integer(config, "intermediate_size"),
            vocab_size=integer(config, "vocab_size"),
            rms_norm_eps=number(config, "rms_norm_eps", 1e-6),
            tie_word_embeddings=flag(config, "tie_word_embeddings", False),
            qkv_bias=family.qkv_bias or attention_bias,
            o_bias=attention_bias,
            mlp_bias=family.mlp_bias and flag(config, "mlp_bias", False),
            qk_norm=family.qk_norm,
            rope=rope,
            max_position_embeddings=_context(config, rope),
            eos_token_ids=_eos_token_ids(config, generation_config or {}),
            bos_token_id=_bos_token_id(config),
        )


def _refuse_unsupported(config: Json, family: _Family) -> None:
    activation = config.get("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise ModelLoadError(f"activation {activation!r} is not supported (supported: silu).")
    if config.get("quantization_config"):
        raise ModelLoadError("quantised safetensors are not supported: use the unquantised model or a GGUF.")
    window, context = _sliding_window(config, family), integer(config, "max_position_embeddings")
    if window is not None and window < context:
        raise ModelLoadError(
            f"sliding-window attention is not supported: the model's window of {window} tokens is smaller "
            f"than its context of {context}."
        )


def _sliding_window(config: Json, family: _Family) -> int | None:
    """The window that some layer attends through; None where every layer sees the whole context.

    An explicit null means none. Qwen carries a `sliding_window` that counts only with `use_sliding_window`,
    and then only from layer `max_window_layers` on; `layer_types`, where given, decides.
    """
    if config.get("sliding_window", family.sliding_window) is None:
        return None
    if str(config["model_type"]).startswith("qwen") and not _qwen_slides(config):
        return None
    return integer(config, "sliding_window", family.sliding_window)


def _qwen_slides(config: Json) -> bool:
    if not flag(config, "use_sliding_window", False):
        return False
    layer_types = config.get("layer_types")
    if isinstance(layer_types, list):
        return "sliding_attention" in layer_types
    return integer(config, "max_window_layers", 28, least=0) < integer(config, "num_hidden_layers")


def _num_kv_heads(config: Json, num_heads: int) -> int:
    num_kv_heads = integer(config, "num_key_value_heads", num_heads)
    if num_heads % num_kv_heads:
        raise ModelLoadError(
            f"the model's {num_heads} attention heads cannot share {num_kv_heads} key/value heads evenly."
        )
    return num_kv_heads


def _head_dim(config: Json, family: _Family, num_heads: int) -> int:
    head_dim = integer(config, "head_dim", family.head_dim or integer(config, "hidden_size") // num_heads)
    if head_dim % 2:
        raise ModelLoadError(f"the model's head_dim must be even for rotary embeddings, not {head_dim}.")
    return head_dim


def _context(config: Json, rope: RopeConfig) -> int:
    """Checkpoints with yarn state the length before or after scaling: the longer is meant."""
    stated = integer(config, "max_position_embeddings")
    return max(stated, int(rope.original_max_position * rope.factor)) if rope.rope_type == "yarn" else stated


def _eos_token_ids(config: Json, generation_config: Json) -> tuple[int, ...]:
    """generation_config.json wins: chat models list their end-of-turn tokens there."""
    value = generation_config.get("eos_token_id")
    if value is None:
        value = config.get("eos_token_id")
    if value is None:
        return ()
    ids = value if isinstance(value, list) else [value]
    return tuple(sorted({integer({"eos_token_id": i}, "eos_token_id", least=0) for i in ids}))


def _bos_token_id(config: Json) -> int | None:
    return None if config.get("bos_token_id") is None else integer(config, "bos_token_id", least=0)
