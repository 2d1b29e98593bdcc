"""`capture`: run the target over conversations once and keep what the head learns from."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from tqdm import tqdm

from training.data import Conversation
from training.errors import TrainingError
from training.store import StreamStore
from training.target import Captured, Target


class Source(Protocol):
    """Where training gets a conversation's features from: the disk, or the target itself."""

    def captured(self, conversation: Conversation) -> Captured: ...


class LiveSource:
    """Features on the fly: nothing is stored, every epoch runs the target again."""

    def __init__(self, target: Target, layers: tuple[int, ...]) -> None:
        self._target, self._layers = target, layers

    def captured(self, conversation: Conversation) -> Captured:
        return self._target.capture(conversation, self._layers)


def capture(target: Target, conversations: Iterable[Conversation], store: StreamStore) -> int:
    """Append what the store lacks; returns how many that were. Raises TrainingError when it does not fit."""
    missing = {c.digest: c for c in conversations if c not in store}
    _check_space(store, sum(len(c.token_ids) for c in missing.values()))
    total = sum(len(c.token_ids) for c in missing.values())
    with tqdm(total=total, unit="token", unit_scale=True, desc="capture", mininterval=2) as bar:
        for conversation in missing.values():
            store.append(conversation, target.capture(conversation, store.meta.layers))
            bar.update(len(conversation.token_ids))
    return len(missing)


def _check_space(store: StreamStore, tokens: int) -> None:
    """Better to refuse now than to fill the disk in an hour."""
    needed, free = tokens * (store.meta.bytes_per_token + 4), _free_bytes(store.folder)
    if needed > free:
        raise TrainingError(
            f"features of {tokens} tokens need {needed / 2**30:.1f} GiB, but the disk of {store.folder} has "
            f"{free / 2**30:.1f} GiB left: capture less, or train without --features."
        )


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free
