"""Random models as GGUF files, written as llama.cpp's converter would write them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, TokenType
from gguf.quants import quantize
from tokenizers.pre_tokenizers import ByteLevel
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

SPECIAL = ["<|pad|>", "<|start|>", "<|end|>", "<|unk|>"]
TOKENS = [*SPECIAL, *sorted(ByteLevel.alphabet()), "ab"]
CHAT_TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"


FAMILIES: dict[str, tuple[type[PreTrainedConfig], type[PreTrainedModel]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}


@dataclass(frozen=True)
class TinyGguf:
    path: Path
    state: dict[str, torch.Tensor]


def write_tiny_gguf(
    path: Path,
    family: str = "llama",
    *,
    quantised: bool = False,
    metadata: dict[str, str | int | float] | None = None,
    tensors: dict[str, np.ndarray] | None = None,
    without: str | None = None,
) -> TinyGguf:
    """Two layers, one token per byte and a few more; tied embeddings but for qwen3. Q8_0 or float32.

    `metadata` and `tensors` are written besides, the tensor `without` is left out.
    """
    torch.manual_seed(0)
    config_class, model_class = FAMILIES[family]
    config = config_class(
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=128 if family == "qwen3" else 16,  # transformers knows no other for qwen3's GGUF
        vocab_size=len(TOKENS),
        max_position_embeddings=128,
        tie_word_embeddings=family != "qwen3",
        bos_token_id=1,
        eos_token_id=2,
    )
    state = model_class(config).state_dict()
    if config.tie_word_embeddings:
        del state["lm_head.weight"]
    _randomise_vectors(state)
    writer = GGUFWriter(path, family)
    _write_metadata(writer, config)
    writer.add_file_type(LlamaFileType.MOSTLY_Q8_0 if quantised else LlamaFileType.ALL_F32)
    add = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}
    for key, value in (metadata or {}).items():
        add[type(value)](key, value)
    for name, tensor in [*_gguf_tensors(config, state), *(tensors or {}).items()]:
        if name == without:
            continue
        if quantised and tensor.ndim == 2:
            kind = GGMLQuantizationType.Q8_0
            writer.add_tensor(name, quantize(tensor, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return TinyGguf(path, state)


def _randomise_vectors(state: dict[str, torch.Tensor]) -> None:
    """Norms start as ones and biases as zeros, which would hide a mix-up."""
    for tensor in state.values():
        if tensor.ndim == 1:
            tensor.uniform_(0.5, 1.5)


def _write_metadata(writer: GGUFWriter, config: PreTrainedConfig) -> None:
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types(
        [TokenType.CONTROL] * len(SPECIAL) + [TokenType.NORMAL] * (len(TOKENS) - len(SPECIAL))
    )
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)


def _gguf_tensors(
    config: PreTrainedConfig, state: dict[str, torch.Tensor]
) -> Iterator[tuple[str, np.ndarray]]:
    permuted = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for name, tensor in state.items():
        *parts, kind = name.split(".")
        layer = next((f"blk.{part}." for part in parts if part.isdigit()), "")
        short = _NAMES[parts[-1]]
        heads = permuted.get(short) if config.model_type == "llama" else None
        yield f"{layer}{short}.{kind}", _permuted(tensor, heads).numpy()


def _permuted(weight: torch.Tensor, heads: int | None) -> torch.Tensor:
    """GGUF interleaves the two halves that the rotation pairs."""
    if heads is None:
        return weight
    rows, columns = weight.shape
    return (
        weight.view(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns).contiguous()
    )


_NAMES = {
    "embed_tokens": "token_embd",
    "lm_head": "output",
    "norm": "output_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
}
