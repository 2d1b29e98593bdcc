"""A small random model of which every token is one character: equal texts are equal tokens."""

from __future__ import annotations

import json
import string
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

CONTEXT = 2048
SPECIAL = ("<|start|>", "<|end|>")
CHARACTERS = [c for c in string.printable if c.isprintable() and c != " "] + ["Ġ"]  # GPT-2's space
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def write_model(folder: Path) -> Path:
    """Two layers with two KV heads, so for two ranks at most. The same weights every time."""
    disable_progress_bar()  # type: ignore[no-untyped-call]  # of writing 300 kB
    tokenizer = _tokenizer()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        initializer_range=0.3,  # far from uniform, so that the best token wins by a margin
        bos_token_id=tokenizer.token_to_id(SPECIAL[0]),
        eos_token_id=tokenizer.token_to_id(SPECIAL[1]),
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    described = {"bos_token": SPECIAL[0], "eos_token": SPECIAL[1], "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(described))
    return folder


def _tokenizer() -> Tokenizer:
    """Byte-level, without a single merge."""
    vocabulary = {character: place for place, character in enumerate(CHARACTERS)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer
