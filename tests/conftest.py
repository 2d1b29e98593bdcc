"""What the tests of several packages need: a tiny model on disk, a local Ray cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tiny_tokenizers import BOS, CHATML, EOS, byte_level
from tokenizers import Tokenizer

# As the service's own processes have it, and before torch reads it: threads that spin while they wait for
# each other get nowhere when anything else wants their core. A test of 0.3 s takes 25 beside a busy process.
os.environ["OMP_WAIT_POLICY"] = "passive"

# On a busy machine an example takes as long as it takes, and so does drawing it: neither says anything of us.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a two-layer Llama. Its text is noise that hardly ever ends by itself."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    tokenizer = Tokenizer.from_buffer(byte_level())
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        initializer_range=0.3,  # far from uniform, so that the best token wins by a margin
        bos_token_id=tokenizer.token_to_id(BOS),
        eos_token_id=tokenizer.token_to_id(EOS),
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes(byte_level())
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": BOS, "eos_token": EOS, "chat_template": CHATML})
    )
    return folder


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """One local Ray for the whole session, as large as the machine that the service must fit: two CPUs."""
    # Serve kills a proxy that is not up after three times this long: a busy machine needs longer than 5 s.
    os.environ["RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S"] = "60"
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
