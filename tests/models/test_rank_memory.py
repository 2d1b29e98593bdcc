"""A rank that loads its part never holds the whole model, not even for a moment."""

from __future__ import annotations

from pathlib import Path

from loading_peak import peak_of_loading
from tiny_models import save_tiny, tiny_model

from serving.models.sharding import Shard
from serving.models.weights import SINGLE

SIZES = {
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 8000,
}


def test_loading_a_part_takes_a_part_of_the_memory(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path, tiny_model(**SIZES))
    model = (folder / SINGLE).stat().st_size
    assert model > 20e6
    assert peak_of_loading(folder, Shard()) > 0.95 * model
    assert 0.2 * model < peak_of_loading(folder, Shard(3, 4)) < 0.4 * model
