"""What a token stands for on its own, as log-probabilities tell it: special tokens, halves of characters."""

from __future__ import annotations

from serving.router.detokenizer import byte_of, from_alphabet
from serving.router.tokenizer import Tokenizer

_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # how SentencePiece writes a space


class TokenBytes(dict[int, bytes]):
    """Bytes of each token id, looked up once. An id without a token has none."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._byte_level = tokenizer.byte_level

    def __missing__(self, token_id: int) -> bytes:
        self[token_id] = value = self._look_up(token_id)
        return value

    def _look_up(self, token_id: int) -> bytes:
        token = self._tokenizer.token(token_id)
        if token is None:
            return b""
        if self._byte_level:
            return from_alphabet(token)
        byte = byte_of(token)
        return token.replace(_SPACE, " ").encode() if byte is None else byte
