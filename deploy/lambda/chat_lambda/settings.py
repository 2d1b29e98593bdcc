"""Settings of the function, from its environment. terraform/modules/chat-function sets them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """forbidden_patterns are compiled; times in seconds."""

    model_id: str
    cache_table: str
    cache_ttl_s: int
    api_keys_secret: str
    max_prompt_tokens: int
    forbidden_patterns: tuple[re.Pattern[str], ...]
    allowed_origins: tuple[str, ...]

    @classmethod
    def load(cls, environ: Mapping[str, str]) -> Settings:
        """Raises ValueError naming the variable that is missing or wrong."""
        return cls(
            model_id=_text(environ, "CANOPY_MODEL_ID"),
            cache_table=_text(environ, "CANOPY_CACHE_TABLE"),
            cache_ttl_s=_count(environ, "CANOPY_CACHE_TTL_S"),
            api_keys_secret=_text(environ, "CANOPY_API_KEYS_SECRET"),
            max_prompt_tokens=_count(environ, "CANOPY_MAX_PROMPT_TOKENS"),
            forbidden_patterns=_patterns(environ, "CANOPY_FORBIDDEN_PATTERNS"),
            allowed_origins=_texts(environ, "CANOPY_ALLOWED_ORIGINS"),
        )


def _text(environ: Mapping[str, str], name: str) -> str:
    if not (value := environ.get(name, "").strip()):
        raise ValueError(f"{name} is not set")
    return value


def _count(environ: Mapping[str, str], name: str) -> int:
    text = _text(environ, name)
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name}: {text!r} is no whole number above 0")
    return int(text)


def _texts(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    try:
        values = json.loads(environ.get(name) or "[]")
    except ValueError as error:
        raise ValueError(f"{name}: no JSON: {error}") from None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{name} must be a JSON list of texts")
    return tuple(values)


def _patterns(environ: Mapping[str, str], name: str) -> tuple[re.Pattern[str], ...]:
    try:
        return tuple(re.compile(text, re.IGNORECASE) for text in _texts(environ, name))
    except re.error as error:
        raise ValueError(f"{name}: {error.pattern!r} is no regular expression: {error}") from None
