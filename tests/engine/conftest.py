"""Models that every test of the engine can use, written once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_models import save_tiny, tiny_model


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "llama", tiny_model(head_dim=32))


@pytest.fixture(scope="session")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tied, with normalised heads, one of them for all queries."""
    model = tiny_model(
        seed=1,
        model_type="qwen3",
        head_dim=64,
        num_key_value_heads=1,
        tie_word_embeddings=True,
        vocab_size=83,
    )
    return save_tiny(tmp_path_factory.mktemp("models") / "qwen3", model)
