"""Models that every test of the engine can use, written once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from head_configs import HEADS, VOCAB, layout
from tiny_heads import save_head
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


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the heads are for."""
    model = tiny_model(head_dim=32, vocab_size=VOCAB)
    return save_tiny(tmp_path_factory.mktemp("target") / "llama", model)


@pytest.fixture(scope="session")
def drafts(target: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Settings of each method. The small model is the target itself, which is right whenever it is greedy."""
    folder = tmp_path_factory.mktemp("heads")
    paths = {name: save_head(head, folder / name, layout(head)) for name, head in HEADS.items()}
    heads = {name: {"method": HEADS[name].kind, "head": str(path)} for name, path in paths.items()}
    return heads | {"draft_model": {"method": "draft_model", "draft_model": str(target)}}
