"""From a client's wishes to SamplingParams, checked against the model and the configuration."""

from __future__ import annotations

import secrets
from typing import NamedTuple, TypeVar

from serving.api.requests import ChatCompletionRequest, CompletionRequest, TextCompletionRequest
from serving.errors import ContextLengthError, RequestError
from serving.router.model import ServedModel
from serving.types import SamplingParams

Number = TypeVar("Number", int, float)

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
    """To read a prompt, a verifier has to say a token."""
    return Length("max_tokens", 1 if body.prompt_only else body.max_tokens, _TEXT_DEFAULT_TOKENS)


def choose_seed(body: CompletionRequest) -> int:
    """The client's seed, or a drawn one: a request is always a function of its own fields."""
    return body.seed if body.seed is not None else secrets.randbits(_DRAWN_SEED_BITS)


def sampling_params(
    body: CompletionRequest, model: ServedModel, seed: int, max_tokens: int
) -> SamplingParams:
    """`seed` may be negative: it wraps to 64 bits. Raises RequestError for tokens that the model lacks."""
    default = model.card.sampling
    top_k = _either(body.top_k, default.top_k)
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=_either(body.temperature, default.temperature),
        top_p=_either(body.top_p, default.top_p),
        top_k=top_k if 0 < top_k < model.card.vocab_size else 0,
        min_p=_either(body.min_p, default.min_p),
        seed=seed % 2**64,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        repetition_penalty=_either(body.repetition_penalty, default.repetition_penalty),
        logit_bias=_logit_bias(body, model),
        min_tokens=_min_tokens(body, max_tokens),
        stop_token_ids=_stop_token_ids(body, model),
        logprobs=body.likeliest,
        prompt_logprobs=body.echoes and body.likeliest is not None,
        num_speculative_tokens=body.num_speculative_tokens,
    )


def _either(asked: Number | None, default: Number) -> Number:
    return default if asked is None else asked


def _min_tokens(body: CompletionRequest, max_tokens: int) -> int:
    least = body.min_tokens or 0
    max_tokens = 0 if body.prompt_only else max_tokens
    if least > max_tokens:
        raise RequestError(f"min_tokens is {least}, but there are {max_tokens} tokens at most", "min_tokens")
    return least


def _stop_token_ids(body: CompletionRequest, model: ServedModel) -> frozenset[int]:
    asked = body.stop_token_ids or []
    model.check_vocabulary(asked, "stop_token_ids")
    stop_token_ids = frozenset(asked) | frozenset(() if body.ignore_eos else model.card.eos_token_ids)
    if body.min_tokens and len(stop_token_ids) == model.card.vocab_size:
        raise RequestError("min_tokens leaves nothing to say where every token stops", "stop_token_ids")
    return stop_token_ids


def _logit_bias(body: CompletionRequest, model: ServedModel) -> tuple[tuple[int, float], ...]:
    """Biases of 0 are left out."""
    bias = {_token_id(key): value for key, value in (body.logit_bias or {}).items()}
    model.check_vocabulary(bias.keys(), "logit_bias")
    return tuple((token, value) for token, value in bias.items() if value)


def _token_id(key: str) -> int:
    """JSON's keys are text. One way to write each id, so that none is given twice."""
    if not (len(key) < 20 and key.isascii() and key.isdecimal() and str(int(key)) == key):
        raise RequestError(f"logit_bias: {key[:20]!r} is not a token id", "logit_bias")
    return int(key)
