"""How long a text is, without the model's tokenizer: rather too many tokens than too few.

A token per digit, per three ASCII letters or spaces (English has four to five, code three), per two other
ASCII characters, and per two bytes of anything else (a Chinese character has three bytes, a Cyrillic letter
two); eight tokens around each message.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

# ASCII characters, and the tokens of each.
_ASCII = ((re.compile(r"[0-9]"), 1), (re.compile(r"[A-Za-z ]"), 1 / 3), (re.compile(r"[^0-9A-Za-z ]"), 1 / 2))
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_PER_OTHER_BYTE = 1 / 2
_AROUND_A_MESSAGE = 8


def estimated_tokens(texts: Iterable[str]) -> int:
    """Of messages with these texts. What this lets through and the model does not, Bedrock refuses."""
    return sum(_tokens(text) + _AROUND_A_MESSAGE for text in texts)


def _tokens(text: str) -> int:
    ascii_text = _NOT_ASCII.sub("", text)
    other_bytes = len(text.encode("utf-8", "surrogatepass")) - len(ascii_text)
    ascii_tokens = sum(len(pattern.findall(ascii_text)) * each for pattern, each in _ASCII)
    return math.ceil(ascii_tokens + other_bytes * _PER_OTHER_BYTE)
