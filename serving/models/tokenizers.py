"""Whether two models have the same tokens."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer

from serving.errors import ModelLoadError
from serving.models.card import read_tokenizer


def check_same_tokens(draft: Path, target: Path) -> None:
    """Raises ModelLoadError when the folders' tokenizers give different ids to some token.

    Added tokens do not count: fine-tuning renames those that were reserved.
    """
    ours, theirs = (_vocabulary(folder) for folder in (draft, target))
    if ours != theirs:
        raise ModelLoadError(f"{draft} is for another model: its tokenizer is not that of {target}.")


def _vocabulary(folder: Path) -> dict[str, int]:
    tokenizer = Tokenizer.from_buffer(read_tokenizer(folder).tokenizer_json)
    vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=False)
    return vocabulary
