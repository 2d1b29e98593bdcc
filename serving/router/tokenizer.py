"""Text to token ids and back, without transformers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import tokenizers

from serving.errors import ModelLoadError

# Encoding this many characters takes about a millisecond: longer texts leave the event loop.
_LONG_TEXT = 4096


class Tokenizer:
    """A `tokenizer.json`, with the lookups that detokenising token by token needs.

    Raises ModelLoadError when the file cannot be read.
    """

    def __init__(self, tokenizer_json: bytes) -> None:
        try:
            self._inner = tokenizers.Tokenizer.from_buffer(tokenizer_json)
        except Exception as error:  # the library raises nothing narrower
            raise ModelLoadError(f"tokenizer.json cannot be read: {error}") from error
        self._inner.no_truncation()
        self._inner.no_padding()
        added = self._inner.get_added_tokens_decoder()
        self.special_ids = frozenset(token_id for token_id, token in added.items() if token.special)

    @property
    def byte_level(self) -> bool:
        """Whether a token's characters stand for bytes (GPT-2's alphabet), and nothing else is done."""
        decoder = self._inner.decoder
        return decoder is not None and json.loads(decoder.__getstate__())["type"] == "ByteLevel"

    async def encode(self, text: str, *, add_special_tokens: bool) -> tuple[int, ...]:
        if len(text) < _LONG_TEXT:
            return self._encode(text, add_special_tokens)
        return await asyncio.to_thread(self._encode, text, add_special_tokens)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of the whole sequence; special tokens and ids without a token leave nothing."""
        return self._inner.decode(token_ids, skip_special_tokens=True)

    async def decode_all(self, token_ids: Sequence[int]) -> str:
        """Text of the whole sequence, special tokens included."""
        if len(token_ids) < _LONG_TEXT:
            return self._decode_all(token_ids)
        return await asyncio.to_thread(self._decode_all, token_ids)

    def token(self, token_id: int) -> str | None:
        """The token as the vocabulary writes it; None where the vocabulary has a hole."""
        return self._inner.id_to_token(token_id)

    def _decode_all(self, token_ids: Sequence[int]) -> str:
        (text,) = self._inner.decode_batch([token_ids], skip_special_tokens=False)
        return text

    def _encode(self, text: str, add_special_tokens: bool) -> tuple[int, ...]:
        # Unlike `encode`, the batch call releases the interpreter lock: the event loop runs on meanwhile.
        (encoding,) = self._inner.encode_batch_fast([text], add_special_tokens=add_special_tokens)
        return tuple(encoding.ids)
