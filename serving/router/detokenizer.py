"""Token ids to text, a few at a time: never half a character, and all pieces together the whole text.

Two kinds of tokenizers need two ways. Where a token stands for bytes (GPT-2's alphabet: Llama 3, Qwen), its
bytes go through an incremental UTF-8 decoder. Everything else (SentencePiece: Llama 2, Mistral) is decoded in
a window that starts at the last token already written out, because a text's first token loses its space.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from functools import cache
from typing import Protocol

from serving.router.tokenizer import Tokenizer


class Detokenizer(Protocol):
    """State of one text. `"".join(pushes) + flush()` equals decoding all ids at once."""

    def push(self, token_ids: Iterable[int]) -> str:
        """The text that these tokens settle: possibly less than they say, or what earlier ones left open."""

    def flush(self) -> str:
        """What is still held back; an unfinished character becomes U+FFFD."""


class DetokenizerFactory:
    """Makes the detokenizers of one model; what they learn of its tokens is shared."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._token_bytes = _TokenBytes(tokenizer) if tokenizer.byte_level else None

    def new(self) -> Detokenizer:
        if self._token_bytes is not None:
            return _ByteDetokenizer(self._token_bytes)
        return _WindowDetokenizer(self._tokenizer)


class _TokenBytes(dict[int, bytes]):
    """Bytes of each token id, looked up once; special tokens have none."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, token_id: int) -> bytes:
        self[token_id] = value = self._look_up(token_id)
        return value

    def _look_up(self, token_id: int) -> bytes:
        token = self._tokenizer.token(token_id)
        if token is None or token_id in self._tokenizer.special_ids:
            return b""
        return from_alphabet(token)


@cache
def byte_alphabet() -> dict[str, int]:
    """GPT-2's alphabet: printable Latin-1 stands for itself, other bytes for characters from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in printable)
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def from_alphabet(token: str) -> bytes:
    """The bytes of a token in GPT-2's alphabet."""
    try:
        return bytes(byte_alphabet()[character] for character in token)
    except KeyError:  # an added token is plain text
        return token.encode()


class _ByteDetokenizer:
    def __init__(self, token_bytes: _TokenBytes) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_ids: Iterable[int]) -> str:
        token_bytes = self._token_bytes
        return self._decoder.decode(b"".join([token_bytes[token_id] for token_id in token_ids]))

    def flush(self) -> str:
        return self._decoder.decode(b"", final=True)


_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


def byte_of(token: str) -> bytes | None:
    """The byte that a SentencePiece vocabulary's `<0xE2>` stands for; None: another token."""
    match = _BYTE_TOKEN.fullmatch(token)
    return bytes.fromhex(match[1]) if match else None


class _WindowDetokenizer:
    """Decodes `[last written token, pending tokens]`; the difference to the first alone is new.

    A byte token (`<0xE2>`) waits for the end of its run: one invalid byte turns the whole run into U+FFFD.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._written: list[int] = []  # at most one token
        self._pending: list[int] = []

    def push(self, token_ids: Iterable[int]) -> str:
        known = [i for i in token_ids if i not in self._tokenizer.special_ids]
        self._pending += [i for i in known if self._tokenizer.token(i) is not None]
        if not self._pending or byte_of(self._tokenizer.token(self._pending[-1]) or "") is not None:
            return ""
        text = self._pending_text()
        if text.endswith("\N{REPLACEMENT CHARACTER}"):
            return ""  # perhaps half a character
        self._written, self._pending = self._pending[-1:], []
        return text

    def flush(self) -> str:
        text, self._pending = self._pending_text(), []
        return text

    def _pending_text(self) -> str:
        before = self._tokenizer.decode(self._written)
        return self._tokenizer.decode(self._written + self._pending)[len(before) :]
