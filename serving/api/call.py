"""A completion request that has passed every check, ready to run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

from serving.api.record import RequestRecord
from serving.api.requests import ChatCompletionRequest, CompletionRequest, TextCompletionRequest
from serving.api.responses import Finish, Speculation, Usage
from serving.api.sampling import Length, chat_length, choose_seed, sampling_params, text_length
from serving.config import RouterConfig
from serving.errors import ModelNotFoundError, RequestError
from serving.router.choice import Choice
from serving.router.generation import Generation
from serving.router.model import PromptIds, ServedModel
from serving.router.service import Service
from serving.types import FinishReason, GenerationRequest


@dataclass(frozen=True, slots=True)
class Call:
    """`generation` starts when its pieces are first asked for. `prompt_tokens` counts each prompt once."""

    id: str
    created: int
    model: ServedModel
    generation: Generation
    prompt_tokens: int
    seed: int
    include_usage: bool

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
    model = _named_model(service, body)
    length = chat_length(body, service.config.router.default_max_tokens)
    prompt = await model.chat_prompt([message.for_template() for message in body.messages])
    return _call(service, body, record, "chatcmpl", [prompt], length, "messages")


async def text_call(service: Service, body: TextCompletionRequest, record: RequestRecord) -> Call:
    model = _named_model(service, body)
    _check_choices(body, len(body.prompts), service.config.router)
    prompts = [
        await model.text_prompt(prompt) if isinstance(prompt, str) else model.ids_prompt(prompt)
        for prompt in body.prompts
    ]
    return _call(service, body, record, "cmpl", prompts, text_length(body), "prompt")


def _call(
    service: Service,
    body: CompletionRequest,
    record: RequestRecord,
    prefix: str,
    prompts: Sequence[PromptIds],
    length: Length,
    prompt_param: str,
) -> Call:
    _check_choices(body, len(prompts), service.config.router)
    if body.stream_options is not None and not body.stream:
        raise RequestError("stream_options needs stream: true", "stream_options")
    model, seed, call_id = service.model, choose_seed(body), f"{prefix}-{uuid4().hex}"
    choices: list[Choice] = []
    for prompt in prompts:
        max_tokens = length.within(len(prompt), model.card.max_model_len, prompt_param)
        params = sampling_params(body, model, seed, max_tokens)
        for choice_index in range(body.n or 1):
            index = len(choices)
            request = GenerationRequest(
                f"{call_id}-{index}", prompt, params, choice_index, cache_salt=body.cache_salt
            )
            choices.append(Choice(request, index, model.detokenizer(), body.stops))
    return Call(
        id=call_id,
        created=int(time.time()),
        model=model,
        generation=Generation(service.backend, choices, service.metrics, record.started),
        prompt_tokens=sum(map(len, prompts)),
        seed=seed,
        include_usage=body.stream_options is not None and body.stream_options.include_usage,
    )


def _named_model(service: Service, body: CompletionRequest) -> ServedModel:
    name = service.model.card.name
    if body.model != name:
        raise ModelNotFoundError(f"the model {body.model!r} is not served here; {name!r} is", "model")
    return service.model


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
