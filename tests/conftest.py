"""A tiny model on disk, made anew for every test session: random weights, a byte-level tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

# One token per byte, then the special tokens.
EOS, BOS = "<|end|>", "<|start|>"
TEMPLATE = (
    "{% for message in messages %}" + BOS + "{{ message.role }}: {{ message.content }}" + EOS + "{% endfor %}"
    "{% if add_generation_prompt %}" + BOS + "assistant: {% endif %}"
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning:ray.*")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a two-layer Llama of 258 tokens. Its text is noise; it never ends by itself for long."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=258,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,  # far from uniform, so that the best token wins by a margin
        bos_token_id=257,
        eos_token_id=256,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    save_byte_tokenizer(folder)
    return folder


def save_byte_tokenizer(folder: Path) -> None:
    """256 byte tokens, EOS as id 256, BOS as id 257, and a chat template that uses both."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({char: i for i, char in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(EOS, special=True), AddedToken(BOS, special=True)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=EOS, bos_token=BOS)
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """One local Ray for the whole session, as large as the machine that the service must fit: two CPUs."""
    import ray

    ray.init(
        address="local",
        num_cpus=2,
        object_store_memory=80 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
    )
    yield
    ray.shutdown()
