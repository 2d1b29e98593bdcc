"""The files of a model, wherever they come from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatch
from pathlib import Path

from serving.models.architecture import Architecture
from serving.models.card import read_tokenizer
from serving.models.weights import Weights

MODEL_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*.safetensors",  # not *.safetensors: some models carry a second copy in their own format
)
HEAD_FILES = (
    "config.json",
    "tokenizer.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*.safetensors",
    "pytorch_model.bin",  # how EAGLE's own heads are published
)


def is_one_of(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def check_folder(folder: Path, tensors: Collection[str] | None = None) -> None:
    """tensors: of the weights, only the files with these need be there; None: all.

    Raises ModelLoadError, in one sentence, unless the folder holds a model that we can run.
    """
    Architecture.from_folder(folder)
    Weights.open(folder, tensors)
    read_tokenizer(folder)
