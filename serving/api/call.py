"""A completion request that has passed every check, ready to run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast
from uuid import uuid4

from serving.api.record import RequestRecord
from serving.api.requests import (
    ChatCompletionRequest,
    CompletionRequest,
    StreamOptions,
    TextCompletionRequest,
)
from serving.api.responses import Finish, Speculation, Usage
from serving.api.sampling import Length, chat_length, choose_seed, sampling_params, text_length
from serving.config import RouterConfig
from serving.errors import RequestError, UnsupportedParameterError
from serving.router.choice import Choice
from serving.router.generation import Generation
from serving.router.model import PromptIds, ServedModel
from serving.router.service import Service
from serving.types import FinishReason, GenerationRequest


@dataclass(frozen=True, slots=True)
class Call:
    """`generation` starts when its pieces are first asked for. `prompt_tokens` counts each prompt once.

    include_usage: a stream ends with a chunk of true counts. continuous_usage: its other chunks count so far.
    """

    id: str
    created: int
    model: ServedModel
    generation: Generation
    prompt_tokens: int
    seed: int
    include_usage: bool
    continuous_usage: bool

    def usage(self) -> Usage:
        completion_tokens = self.generation.completion_tokens
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": self.prompt_tokens + completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.generation.cached_tokens},
        }

    def speculation(self) -> Speculation:
        stats = self.generation.stats
        return {
            "draft_tokens": None if stats is None else stats.draft_tokens,
            "accepted_tokens": None if stats is None else stats.accepted_tokens,
            "steps": None if stats is None else stats.steps,
            "tau": None if stats is None else round(stats.tau, 3),
            "seed": self.seed,
        }

    def log_fields(self) -> dict[str, Any]:
        """What a log line may say of it: numbers, no text."""
        choices = self.generation.choices
        first_token = self.generation.seconds_to_first_token
        return {
            "completion_id": self.id,
            "choices": len(choices),
            "finish_reasons": [choice.finish_reason for choice in choices],
            "ttft_s": None if first_token is None else round(first_token, 4),
            **self.usage(),
            **self.speculation(),
        }


async def chat_call(service: Service, body: ChatCompletionRequest, record: RequestRecord) -> Call:
    model = service.model_named(body.model)
    if body.top_logprobs and not body.logprobs:
        raise RequestError("top_logprobs needs logprobs: true", "top_logprobs")
    length = chat_length(body, service.config.router.default_max_tokens)
    prompt = await model.chat_prompt([message.for_template() for message in body.messages])
    return _call(service, model, body, record, "chatcmpl", [_Prompt(prompt)], length, "messages")


async def text_call(service: Service, body: TextCompletionRequest, record: RequestRecord) -> Call:
    model = service.model_named(body.model)
    _check_text(body)
    _check_choices(body, len(body.prompts), service.config.router)
    prompts = [await _text_prompt(model, prompt, body.echoes) for prompt in body.prompts]
    return _call(service, model, body, record, "cmpl", prompts, text_length(body), "prompt")


class _Prompt(NamedTuple):
    """echo: what the answer begins with, or None."""

    ids: PromptIds
    echo: str | None = None


async def _text_prompt(model: ServedModel, prompt: str | list[int], echoes: bool) -> _Prompt:
    if isinstance(prompt, str):
        return _Prompt(await model.text_prompt(prompt), prompt if echoes else None)
    ids = model.ids_prompt(prompt)
    return _Prompt(ids, model.decode(ids) if echoes else None)


def _call(
    service: Service,
    model: ServedModel,
    body: CompletionRequest,
    record: RequestRecord,
    prefix: str,
    prompts: Sequence[_Prompt],
    length: Length,
    prompt_param: str,
) -> Call:
    _check_choices(body, len(prompts), service.config.router)
    options = _stream_options(body)
    seed, call_id = choose_seed(body), f"{prefix}-{uuid4().hex}"
    choices: list[Choice] = []
    for prompt in prompts:
        max_tokens = length.within(len(prompt.ids), model.card.max_model_len, prompt_param)
        params = sampling_params(body, model, seed, max_tokens)
        for choice_index in range(body.n or 1):
            index = len(choices)
            request = GenerationRequest(
                f"{call_id}-{index}",
                prompt.ids,
                params,
                choice_index,
                cache_salt=body.cache_salt,
                priority=body.priority or 0,
                cache_key=body.prompt_cache_key,
                tokenizer=model.tokenizer,
            )
            choice = Choice(
                request,
                index,
                model.detokenizer(),
                body.stops,
                echo=prompt.echo,
                prompt_only=body.prompt_only,
            )
            choices.append(choice)
    return Call(
        id=call_id,
        created=int(time.time()),
        model=model,
        generation=Generation(service, choices, service.metrics, record.started),
        prompt_tokens=sum(len(prompt.ids) for prompt in prompts),
        seed=seed,
        include_usage=bool(options.include_usage),
        continuous_usage=bool(options.continuous_usage_stats),
    )


def _stream_options(body: CompletionRequest) -> StreamOptions:
    options = body.stream_options
    if options is None:
        return StreamOptions()
    if not body.stream:
        raise RequestError("stream_options needs stream: true", "stream_options")
    if options.continuous_usage_stats and not options.include_usage:
        param = "stream_options.continuous_usage_stats"
        raise RequestError(f"{param} needs stream_options.include_usage: true", param)
    return options


def _check_text(body: TextCompletionRequest) -> None:
    if body.prompt_only and not body.echo:
        raise RequestError("max_tokens: 0 needs echo: true", "max_tokens")
    if body.best_of not in (None, body.n or 1):
        raise UnsupportedParameterError("best_of is not supported but as n", "best_of")


def _check_choices(body: CompletionRequest, prompts: int, config: RouterConfig) -> None:
    n = body.n or 1
    if n > config.max_choices:
        raise RequestError(f"n: at most {config.max_choices} choices", "n")
    if prompts * n > config.max_choices:
        raise RequestError(f"{prompts} prompts with n = {n} exceed {config.max_choices} choices", "prompt")


def finish_word(reason: FinishReason) -> Finish:
    """OpenAI's word; a choice that ends otherwise never becomes an answer."""
    assert reason in (FinishReason.STOP, FinishReason.LENGTH)
    return cast(Finish, reason.value)
