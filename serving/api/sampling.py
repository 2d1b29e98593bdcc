"""From a client's wishes to SamplingParams, checked against the model and the configuration."""

from __future__ import annotations

import secrets
from typing import NamedTuple

from serving.api.requests import ChatCompletionRequest, CompletionRequest, TextCompletionRequest
from serving.errors import ContextLengthError, RequestError
from serving.router.model import ServedModel
from serving.types import SamplingParams

_TEXT_DEFAULT_TOKENS = 16  # OpenAI's default for /v1/completions
_DRAWN_SEED_BITS = 53  # a drawn seed survives clients that keep numbers as doubles


class Length(NamedTuple):
    """How many tokens are wanted: `asked` under the name `param`, otherwise `default` or what fits."""

    param: str
    asked: int | None
    default: int

    def within(self, prompt_tokens: int, max_model_len: int, prompt_param: str) -> int:
        """Raises ContextLengthError naming `prompt_param`, or `param` where that is what does not fit."""
        room = max_model_len - prompt_tokens
        if room < 1:
            message = f"the prompt has {prompt_tokens} tokens, but the context holds {max_model_len}"
            raise ContextLengthError(f"{message}, the answer included", prompt_param)
        if self.asked is not None and self.asked > room:
            message = f"{prompt_tokens} prompt tokens leave room for {room} in a context of {max_model_len}"
            raise ContextLengthError(f"{message}, but {self.param} is {self.asked}", self.param)
        return self.asked if self.asked is not None else min(self.default, room)


def chat_length(body: ChatCompletionRequest, default: int) -> Length:
    if body.max_completion_tokens is None:
        return Length("max_tokens", body.max_tokens, default)
    if body.max_tokens not in (None, body.max_completion_tokens):
        raise RequestError("max_tokens and max_completion_tokens differ; send one", "max_tokens")
    return Length("max_completion_tokens", body.max_completion_tokens, default)


def text_length(body: TextCompletionRequest) -> Length:
    return Length("max_tokens", body.max_tokens, _TEXT_DEFAULT_TOKENS)


def choose_seed(body: CompletionRequest) -> int:
    """The client's seed, or a drawn one: a request is always a function of its own fields."""
    return body.seed if body.seed is not None else secrets.randbits(_DRAWN_SEED_BITS)


def sampling_params(
    body: CompletionRequest, model: ServedModel, seed: int, max_tokens: int
) -> SamplingParams:
    """`seed` may be negative: it wraps to 64 bits. Raises RequestError for stop tokens the model lacks."""
    stop_token_ids = body.stop_token_ids or []
    model.check_vocabulary(stop_token_ids, "stop_token_ids")
    top_k = body.top_k or 0
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        top_k=top_k if 0 < top_k < model.card.vocab_size else 0,
        min_p=body.min_p or 0.0,
        seed=seed % 2**64,
        stop_token_ids=frozenset(stop_token_ids) | frozenset(model.card.eos_token_ids),
        num_speculative_tokens=body.num_speculative_tokens,
    )
