"""Captured streams on disk: written once, read memory-mapped by every epoch.

meta.json     what was captured, and from which target
tokens.bin    int32, the conversations' token ids one after the other
streams.bin   bf16 [tokens, streams, hidden] in the same order
best.bin      int32, the token that the target likes best after each one; -1: not asked
index.jsonl   one line per complete conversation; what the other files hold beyond it does not count
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from training.data import Conversation
from training.errors import TrainingError
from training.target import Captured


@dataclass(frozen=True, slots=True)
class StreamMeta:
    """layers: whose inputs were captured; the last layer's output follows them."""

    fingerprint: str
    layers: tuple[int, ...]
    hidden_size: int

    @property
    def num_streams(self) -> int:
        return len(self.layers) + 1

    @property
    def bytes_per_token(self) -> int:
        return self.num_streams * self.hidden_size * torch.bfloat16.itemsize


@dataclass(frozen=True, slots=True)
class _Entry:
    digest: str
    length: int
    prompt_len: int
    temperature: float


class StreamStore:
    """Append-only. Opening it for writing drops what an interrupted run left half written."""

    def __init__(self, folder: Path, meta: StreamMeta, entries: list[_Entry]) -> None:
        self.folder, self.meta = folder, meta
        self._entries = entries
        self._starts = np.concatenate([[0], np.cumsum([e.length for e in entries], dtype=np.int64)])
        self._known = {entry.digest for entry in entries}

    @classmethod
    def open(cls, folder: Path) -> StreamStore:
        """For reading. Raises TrainingError when there is no store, or files are shorter than the index."""
        try:
            fields = json.loads((folder / "meta.json").read_text())
            meta = StreamMeta(fields["fingerprint"], tuple(fields["layers"]), fields["hidden_size"])
        except FileNotFoundError:
            raise TrainingError(f"{folder} holds no captured features: run `capture` first.") from None
        except (ValueError, KeyError, TypeError) as error:
            raise TrainingError(f"{folder / 'meta.json'} is damaged ({error}).") from error
        store = cls(folder, meta, _read_index(folder / "index.jsonl"))
        for name, expected in store._sizes().items():
            actual = (folder / name).stat().st_size if (folder / name).exists() else 0
            if actual < expected:
                raise TrainingError(f"{folder / name} is truncated: {actual} bytes instead of {expected}.")
        return store

    @classmethod
    def open_for_writing(cls, folder: Path, meta: StreamMeta) -> StreamStore:
        """Create the store, or continue one of the same target and layers (else TrainingError)."""
        if not (folder / "meta.json").exists():
            with _disk_errors(folder):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "meta.json").write_text(json.dumps(asdict(meta)))
        store = cls.open(folder)
        if store.meta != meta:
            raise TrainingError(f"{folder} holds features of another target or of other layers.")
        _drop_partial_line(folder / "index.jsonl")
        for name, size in store._sizes().items():
            (folder / name).touch()
            os.truncate(folder / name, size)
        return store

    def __contains__(self, conversation: Conversation) -> bool:
        return conversation.digest in self._known

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, conversation: Conversation, captured: Captured) -> None:
        """Raises TrainingError when the disk is full; a later run continues the store."""
        streams, n = captured.streams, len(conversation.token_ids)
        assert streams.shape == (n, self.meta.num_streams, self.meta.hidden_size)
        assert streams.dtype == torch.bfloat16
        entry = _Entry(conversation.digest, n, conversation.prompt_len, conversation.temperature)
        with _disk_errors(self.folder):
            _append(self.folder / "tokens.bin", conversation.token_ids.tobytes())
            _append(self.folder / "streams.bin", streams.contiguous().view(torch.uint8).numpy().tobytes())
            _append(self.folder / "best.bin", captured.best.numpy().tobytes())
            _append(self.folder / "index.jsonl", (json.dumps(asdict(entry)) + "\n").encode())
        self._entries.append(entry)
        self._starts = np.append(self._starts, self._starts[-1] + entry.length)
        self._known.add(entry.digest)

    def conversations(self) -> list[Conversation]:
        tokens = np.fromfile(self.folder / "tokens.bin", np.int32, count=int(self._starts[-1]))
        return [
            Conversation(tokens[start : start + entry.length], entry.prompt_len, entry.temperature)
            for start, entry in zip(self._starts, self._entries, strict=False)
        ]

    def reader(self) -> StreamReader:
        return StreamReader(self)

    def offsets(self) -> dict[str, int]:
        """First token of each conversation, by digest."""
        return {entry.digest: int(start) for entry, start in zip(self._entries, self._starts, strict=False)}

    @property
    def num_tokens(self) -> int:
        return int(self._starts[-1])

    def _sizes(self) -> dict[str, int]:
        return {
            "tokens.bin": self.num_tokens * np.dtype(np.int32).itemsize,
            "best.bin": self.num_tokens * np.dtype(np.int32).itemsize,
            "streams.bin": self.num_tokens * self.meta.bytes_per_token,
        }


class StreamReader:
    """What was captured of stored conversations, read from the mapped file."""

    def __init__(self, store: StreamStore) -> None:
        self._offsets = store.offsets()
        shape = (store.num_tokens, store.meta.num_streams, store.meta.hidden_size)
        self._streams = np.memmap(store.folder / "streams.bin", np.int16, mode="r", shape=shape)
        self._best = np.fromfile(store.folder / "best.bin", np.int32, count=store.num_tokens)

    def captured(self, conversation: Conversation) -> Captured:
        """Copies."""
        start = self._offsets[conversation.digest]
        rows = slice(start, start + len(conversation.token_ids))
        streams = torch.from_numpy(self._streams[rows].copy()).view(torch.bfloat16)
        return Captured(streams, torch.from_numpy(self._best[rows].copy()))


def _read_index(path: Path) -> list[_Entry]:
    """Complete lines; a last one without its end was being written when the run stopped."""
    if not path.exists():
        return []
    entries = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            entries.append(_Entry(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise TrainingError(f"{path}:{number} is damaged ({error}).") from error
    return entries


def _drop_partial_line(path: Path) -> None:
    content = path.read_bytes() if path.exists() else b""
    path.touch()
    os.truncate(path, content.rfind(b"\n") + 1)


def _append(path: Path, content: bytes) -> None:
    with path.open("ab", buffering=0) as file:
        view = memoryview(content)
        while view:
            view = view[file.write(view) :]


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise TrainingError(
                f"the disk of {folder} is full; make room and run the same command again to continue."
            ) from error
        raise TrainingError(f"cannot write to {folder}: {error.strerror or error}.") from error
