"""Draft heads for whole runs of benchmarks on the tiny model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_heads import TinyHead, save_head


def vocab_size(tiny_model: Path) -> int:
    size: int = json.loads((tiny_model / "config.json").read_text())["vocab_size"]
    return size


@pytest.fixture(scope="session")
def tiny_head(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random EAGLE-3 head as wide as the tiny model."""
    head = TinyHead(vocab_size=vocab_size(tiny_model))
    return save_head(head, tmp_path_factory.mktemp("heads") / "tiny", "specforge")


@pytest.fixture(scope="session")
def tiny_eagle1_head(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random EAGLE-1 head as wide as the tiny model."""
    head = TinyHead(kind="eagle", vocab_size=vocab_size(tiny_model))
    return save_head(head, tmp_path_factory.mktemp("heads") / "tiny-eagle1", "published")
