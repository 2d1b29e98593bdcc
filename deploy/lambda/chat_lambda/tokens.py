"""How long a text is, without the model's tokenizer: rather too many tokens than too few.

Three ASCII characters to a token (English has four to five, code three), two bytes of anything else (a
Chinese character has three bytes, a Cyrillic letter two), and eight tokens around each message.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

_ASCII_PER_TOKEN = 3
_OTHER_BYTES_PER_TOKEN = 2
_AROUND_A_MESSAGE = 8


def estimated_tokens(texts: Iterable[str]) -> int:
    """Of messages with these texts. What this lets through and the model does not, Bedrock refuses."""
    return sum(_tokens(text) + _AROUND_A_MESSAGE for text in texts)


def _tokens(text: str) -> int:
    ascii_count = sum(character < "\x80" for character in text)
    other_bytes = len(text.encode("utf-8", "surrogatepass")) - ascii_count
    return math.ceil(ascii_count / _ASCII_PER_TOKEN + other_bytes / _OTHER_BYTES_PER_TOKEN)
