"""Log-probabilities in OpenAI's two shapes."""

from __future__ import annotations

from collections.abc import Sequence

from serving.api.responses import ChatLogprobs, TextLogprobs, TokenLogprob, TopLogprob
from serving.router.choice import ToldToken
from serving.router.model import ServedModel

_LEAST = -9999.0
"""Written for a token that cannot come: JSON has no infinity."""


def chat_logprobs(model: ServedModel, tokens: Sequence[ToldToken]) -> ChatLogprobs | None:
    """None where there is nothing to tell."""
    if not tokens:
        return None
    return {"content": [_entry(model, told) for told in tokens], "refusal": None}


def text_logprobs(model: ServedModel, tokens: Sequence[ToldToken]) -> TextLogprobs | None:
    """None where there is nothing to tell."""
    if not tokens:
        return None
    return {
        "tokens": [_text(model, told.token_id) for told in tokens],
        "token_logprobs": [told.logprobs and _finite(told.logprobs.logprob) for told in tokens],
        "top_logprobs": [_likeliest(model, told) for told in tokens],
        "text_offset": [told.offset for told in tokens],
    }


def _entry(model: ServedModel, told: ToldToken) -> TokenLogprob:
    assert told.logprobs is not None, "only an echoed prompt has a token without"
    top = [_top(model, token_id, logprob) for token_id, logprob in told.logprobs.likeliest]
    return {**_top(model, told.token_id, told.logprobs.logprob), "top_logprobs": top}


def _top(model: ServedModel, token_id: int, logprob: float) -> TopLogprob:
    value = model.token_bytes(token_id)
    text = value.decode("utf-8", "backslashreplace")
    return {"token": text, "logprob": _finite(logprob), "bytes": list(value)}


def _likeliest(model: ServedModel, told: ToldToken) -> dict[str, float] | None:
    """By text: of tokens that read the same, the likeliest. The token that was said is always there."""
    if told.logprobs is None:
        return None
    by_text: dict[str, float] = {}
    for token_id, logprob in (*told.logprobs.likeliest, (told.token_id, told.logprobs.logprob)):
        by_text.setdefault(_text(model, token_id), _finite(logprob))
    return by_text


def _text(model: ServedModel, token_id: int) -> str:
    value = model.token_bytes(token_id)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "bytes:" + value.decode("utf-8", "backslashreplace")


def _finite(logprob: float) -> float:
    """NaN, too, is no number in JSON."""
    return logprob if logprob > _LEAST else _LEAST
