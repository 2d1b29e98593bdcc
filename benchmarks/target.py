"""What every system under test is to load. Imports torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from serving.config import ServeConfig
from serving.engine.placement import choose_placement
from serving.models.architecture import Architecture
from serving.models.card import read_card
from serving.models.sources import resolve
from serving.types import ModelCard


@dataclass(frozen=True, slots=True)
class Target:
    """The model that every method runs, its dtype decided."""

    folder: Path
    dtype: str
    threads: int
    card: ModelCard

    @classmethod
    def of(cls, config: ServeConfig) -> Target:
        """Raises what loading a model raises."""
        folder = resolve(config.model, config.cache_dir)
        architecture = Architecture.from_folder(folder)
        placement = choose_placement(config, architecture)
        limit = config.engine.max_model_len or architecture.max_position_embeddings
        card = read_card(folder, config.model_name, architecture, limit, placement.dtype_name)
        return cls(folder, placement.dtype_name, placement.threads, card)
