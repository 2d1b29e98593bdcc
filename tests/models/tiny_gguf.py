"""A random Llama as a GGUF file, written as llama.cpp's converter would write it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFWriter, LlamaFileType, TokenType
from tokenizers.pre_tokenizers import ByteLevel
from transformers import LlamaConfig, LlamaForCausalLM

SPECIAL = ["<|pad|>", "<|start|>", "<|end|>", "<|unk|>"]
TOKENS = [*SPECIAL, *sorted(ByteLevel.alphabet()), "ab"]
CHAT_TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"


@dataclass(frozen=True)
class TinyGguf:
    path: Path
    model: LlamaForCausalLM


def write_tiny_gguf(path: Path) -> TinyGguf:
    """Two layers, tied embeddings, one token per byte and four special ones."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=len(TOKENS),
        max_position_embeddings=128,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = LlamaForCausalLM(config)
    writer = GGUFWriter(path, "llama")
    _write_metadata(writer, config)
    for name, tensor in _gguf_tensors(model):
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return TinyGguf(path, model)


def _write_metadata(writer: GGUFWriter, config: LlamaConfig) -> None:
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_file_type(LlamaFileType.ALL_F32)
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


def _gguf_tensors(model: LlamaForCausalLM) -> Iterator[tuple[str, np.ndarray]]:
    heads = {"attn_q": model.config.num_attention_heads, "attn_k": model.config.num_key_value_heads}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        parts = _NAMES[".".join(part for part in name.split(".") if not part.isdigit())]
        layer = next((f"blk.{part}." for part in name.split(".") if part.isdigit()), "")
        yield f"{layer}{parts}.weight", _permuted(tensor, heads.get(parts)).numpy()


def _permuted(weight: torch.Tensor, heads: int | None) -> torch.Tensor:
    """GGUF interleaves the two halves that the rotation pairs."""
    if heads is None:
        return weight
    rows, columns = weight.shape
    return (
        weight.view(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns).contiguous()
    )


_NAMES = {
    "model.embed_tokens.weight": "token_embd",
    "model.norm.weight": "output_norm",
    "model.layers.input_layernorm.weight": "attn_norm",
    "model.layers.post_attention_layernorm.weight": "ffn_norm",
    "model.layers.self_attn.q_proj.weight": "attn_q",
    "model.layers.self_attn.k_proj.weight": "attn_k",
    "model.layers.self_attn.v_proj.weight": "attn_v",
    "model.layers.self_attn.o_proj.weight": "attn_output",
    "model.layers.mlp.gate_proj.weight": "ffn_gate",
    "model.layers.mlp.up_proj.weight": "ffn_up",
    "model.layers.mlp.down_proj.weight": "ffn_down",
}
