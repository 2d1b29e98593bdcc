"""What of a model decides how fast it runs: its bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from serving.errors import ModelLoadError

if TYPE_CHECKING:
    from serving.models.architecture import Architecture

CONFIG = ("config.json",)


class Shape(NamedTuple):
    """`parameters`: all of them, embeddings included. `kv_elements`: of a token, in all layers."""

    parameters: int
    kv_elements: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    context: int

    @classmethod
    def of(cls, a: Architecture) -> Shape:
        """Norms and biases are left out: thousandths."""
        attention = a.hidden_size * a.head_dim * (2 * a.num_heads + 2 * a.num_kv_heads)
        mlp = 3 * a.hidden_size * a.intermediate_size
        embeddings = a.vocab_size * a.hidden_size * (1 if a.tie_word_embeddings else 2)
        return cls(
            parameters=a.num_layers * (attention + mlp) + embeddings,
            kv_elements=2 * a.num_layers * a.num_kv_heads * a.head_dim,
            layers=a.num_layers,
            hidden=a.hidden_size,
            heads=a.num_heads,
            kv_heads=a.num_kv_heads,
            context=a.max_position_embeddings,
        )

    def divides_by(self, ranks: int) -> bool:
        """Whether tensor parallelism can have this size: heads are dealt out whole, key heads may repeat."""
        return self.heads % ranks == 0 and (self.kv_heads % ranks == 0 or ranks % self.kv_heads == 0)


def read_shape(model: str, cache_dir: Path) -> Shape:
    """Of a folder, an s3:// prefix or a Hugging Face id, of which only config.json is fetched.

    Raises ModelLoadError.
    """
    from serving.models.architecture import (
        Architecture,
    )  # brings torch, which no other command should wait for

    return Shape.of(Architecture.from_folder(_folder(model, cache_dir)))


def _folder(model: str, cache_dir: Path) -> Path:
    if model.startswith("s3://"):
        from serving.models import s3

        return s3.fetched(model, cache_dir, CONFIG)
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    from serving.models import hub

    if path.exists() or not hub.is_hub_id(model):
        raise ModelLoadError(f"model {model!r} must be a folder, s3://bucket/prefix or a Hugging Face id.")
    return hub.snapshot(model, CONFIG)
