"""Conversations: JSON lines of `token_ids`, `prompt_len` and `temperature`, gzipped if the name says .gz."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from training.errors import DataError

MAX_REPORTED = 20


@dataclass(frozen=True, eq=False, slots=True)
class Conversation:
    """token_ids: int32 [n]; the first `prompt_len` are the prompt, the rest the target's own answer.

    temperature: the answer's; 0 is greedy.
    """

    token_ids: NDArray[np.int32]
    prompt_len: int
    temperature: float

    def __post_init__(self) -> None:
        assert 1 <= self.prompt_len < len(self.token_ids)

    @property
    def num_response(self) -> int:
        return len(self.token_ids) - self.prompt_len

    @property
    def digest(self) -> str:
        """Equal for equal token ids cut at the same place."""
        return _hash(self.token_ids, salt=self.prompt_len).hex()

    def cut(self, length: int) -> Conversation:
        """Its first `length` tokens; the prompt must be shorter."""
        return Conversation(self.token_ids[:length], self.prompt_len, self.temperature)

    def to_json(self, **more: Any) -> str:
        """One line of a data file, without its end. `more`: fields that reading ignores."""
        fields = {
            "token_ids": self.token_ids.tolist(),
            "prompt_len": self.prompt_len,
            "temperature": self.temperature,
        }
        return json.dumps(fields | more, separators=(",", ":"))


def shortened(conversations: Iterable[Conversation], length: int) -> list[Conversation]:
    """Cut to at most `length` tokens; those whose prompt alone is as long are left out."""
    return [c.cut(length) for c in conversations if c.prompt_len < length]


def limited(conversations: Sequence[Conversation], tokens: int | None) -> list[Conversation]:
    """Those that hold about `tokens` response tokens, drawn by their hash; None: all.

    A smaller share is a part of every larger one, whatever else the text holds.
    """
    if tokens is None:
        return list(conversations)
    drawn = sorted(conversations, key=lambda conversation: conversation.digest)
    before = accumulate((conversation.num_response for conversation in drawn), initial=0)
    chosen = {c.digest for c, already in zip(drawn, before, strict=False) if already < tokens}
    return [conversation for conversation in conversations if conversation.digest in chosen]


class Split(NamedTuple):
    train: list[Conversation]
    held_out: list[Conversation]


def read_conversations(
    paths: Iterable[Path], vocab_size: int, *, skip_broken: bool = False
) -> list[Conversation]:
    """Every conversation of the files, in order.

    Raises DataError naming file and line of what is broken (the first few of many); with `skip_broken` it is
    printed and left out instead.
    """
    conversations: list[Conversation] = []
    broken: list[str] = []
    for path in paths:
        for where, text in numbered_lines(path, broken):
            try:
                conversations.append(parse_conversation(text, vocab_size))
            except ValueError as error:
                broken.append(f"{where}: {error}")
    report_broken(broken, skip_broken)
    return conversations


def numbered_lines(path: Path, broken: list[str]) -> Iterator[tuple[str, str]]:
    """("file:line", text) of each line that is not blank. What cannot be read is added to `broken`."""
    number = 0
    try:
        with _open(path) as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    text = line.decode()
                except UnicodeDecodeError:
                    broken.append(f"{path}:{number}: not UTF-8 text")
                    continue
                if text.strip():
                    yield f"{path}:{number}", text
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        broken.append(f"{path}:{number + 1}: the gzip stream is damaged from here on ({error})")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}.") from error


def report_broken(broken: list[str], skip: bool) -> None:
    """Print what is left out if `skip`, else refuse it."""
    if not broken:
        return
    shown = "\n".join(broken[:MAX_REPORTED])
    more = f"\nand {len(broken) - MAX_REPORTED} more" if len(broken) > MAX_REPORTED else ""
    if not skip:
        raise DataError(f"broken data (--skip-broken leaves it out):\n{shown}{more}")
    print(f"left out {len(broken)} broken lines:\n{shown}{more}")


def parse_conversation(text: str, vocab_size: int) -> Conversation:
    """Raises ValueError saying what is wrong with the line."""
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at column {error.colno})") from None
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    token_ids = _token_ids(fields.get("token_ids"), vocab_size)
    prompt_len, temperature = fields.get("prompt_len"), fields.get("temperature", 0.0)
    if type(prompt_len) is not int or not 1 <= prompt_len < len(token_ids):
        raise ValueError(f"prompt_len must be from 1 to {len(token_ids) - 1}, not {prompt_len!r}")
    if type(temperature) not in (int, float) or not 0 <= temperature < float("inf"):
        raise ValueError(f"temperature must be a number that is not negative, not {temperature!r}")
    return Conversation(token_ids, prompt_len, float(temperature))


def split(conversations: Iterable[Conversation], held_out: float, seed: int) -> Split:
    """By a hash of the prompt: the same text lands on the same side in every run and every data file."""
    parts = Split([], [])
    for conversation in conversations:
        prompt = conversation.token_ids[: conversation.prompt_len]
        share = int.from_bytes(_hash(prompt, salt=seed)[:8]) / 2**64
        parts[share < held_out].append(conversation)
    return parts


def _token_ids(value: Any, vocab_size: int) -> NDArray[np.int32]:
    if not isinstance(value, list) or len(value) < 2 or any(type(token) is not int for token in value):
        raise ValueError("token_ids must be a list of at least two integers")
    if not 0 <= min(value) <= max(value) < vocab_size:
        raise ValueError(f"token_ids must be from 0 to {vocab_size - 1}")
    return np.array(value, np.int32)


def _hash(token_ids: NDArray[np.int32], salt: int) -> bytes:
    return hashlib.blake2b(token_ids.tobytes(), digest_size=16, salt=salt.to_bytes(8)).digest()


def _open(path: Path) -> IO[bytes] | gzip.GzipFile:
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    return path.open("rb")
