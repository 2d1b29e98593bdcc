"""What clients may ask: OpenAI's completion requests, with the extensions that vLLM's users know.

Parsing is strict (`"5"` is no number, `true` no integer, NaN nothing). A null means the default. What is not
declared here is kept in `model_extra`, for `no_ops` to accept or refuse by name.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

_I64 = 2**63
_MAX_STOPS = 16
_MAX_STOP_LENGTH = 1024  # matching them is prepared, and done, on the router's event loop

# `extra="allow"` only defers the refusal, so the OpenAPI document says what will happen.
_REFUSE_UNKNOWN = ConfigDict(
    strict=True, allow_inf_nan=False, extra="allow", json_schema_extra={"additionalProperties": False}
)
_FORBID_UNKNOWN = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")

# Only the first error is told. Collecting those of a million wrong items would take seconds and gigabytes.
_FAIL_FAST = Field(fail_fast=True)


def _text_or_list(value: Any) -> str | None:
    """Which branch of `str | list` a value belongs to; None: neither."""
    if isinstance(value, str):
        return "<text>"
    return "<list>" if isinstance(value, list) else None


def _prompt_kind(value: Any) -> str | None:
    if not isinstance(value, list):
        return "<text>" if isinstance(value, str) else None
    first = value[0] if value else ""
    if isinstance(first, str):
        return "<texts>"
    return "<id lists>" if isinstance(first, list) else "<ids>"


Bias = Annotated[float, Field(ge=-100, le=100)]


class TextPart(BaseModel):
    model_config = _FORBID_UNKNOWN

    type: Literal["text"]
    text: str


Content = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[TextPart], _FAIL_FAST, Tag("<list>")],
    Discriminator(
        _text_or_list,
        custom_error_type="content",
        custom_error_message="must be a string or a list of text parts",
    ),
]

StopString = Annotated[str, Field(min_length=1, max_length=_MAX_STOP_LENGTH)]
Stop = Annotated[
    Annotated[StopString, Tag("<text>")]
    | Annotated[list[StopString], Field(max_length=_MAX_STOPS, fail_fast=True), Tag("<list>")],
    Discriminator(
        _text_or_list, custom_error_type="stop", custom_error_message="must be a string or a list of strings"
    ),
]

Prompt = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[str], Field(min_length=1, fail_fast=True), Tag("<texts>")]
    | Annotated[list[int], _FAIL_FAST, Tag("<ids>")]
    | Annotated[list[Annotated[list[int], _FAIL_FAST]], _FAIL_FAST, Tag("<id lists>")],
    Discriminator(
        _prompt_kind,
        custom_error_type="prompt",
        custom_error_message="must be a string, a list of strings, a list of token ids or a list of such",
    ),
]


class ChatMessage(BaseModel):
    """One turn. `developer` is the newer word for `system`. Text parts are joined by newlines."""

    model_config = _REFUSE_UNKNOWN

    role: Literal["system", "developer", "user", "assistant"]
    content: Content
    name: str | None = None

    def for_template(self) -> dict[str, str]:
        """The message as chat templates know it."""
        text = self.content if isinstance(self.content, str) else "\n".join(p.text for p in self.content)
        message = {"role": "system" if self.role == "developer" else self.role, "content": text}
        return message if self.name is None else message | {"name": self.name}


class StreamOptions(BaseModel):
    model_config = _FORBID_UNKNOWN

    include_usage: bool | None = None
    continuous_usage_stats: (
        Annotated[bool, Field(description="Counts so far in every chunk, too; needs include_usage.")] | None
    ) = None


class CompletionRequest(BaseModel):
    """What both endpoints share. `user` is accepted for the client's own bookkeeping; it changes nothing.

    temperature, top_p, top_k, min_p and repetition_penalty default to the model's generation_config.json.
    """

    model_config = _REFUSE_UNKNOWN

    model: str
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2, description="0 is greedy.")] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, description="-1 or 0: off.")] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    repetition_penalty: (
        Annotated[float, Field(ge=0.01, le=100, description="1: off. Counts the prompt, too.")] | None
    ) = None
    logit_bias: (
        Annotated[dict[str, Bias], Field(description="Token id -> what is added to its logit.")] | None
    ) = None
    min_tokens: Annotated[int, Field(ge=0, description="No stop token before.")] | None = None
    ignore_eos: bool | None = None
    seed: Annotated[int, Field(ge=-_I64, lt=_I64, description="Drawn and reported if not given.")] | None = (
        None
    )
    stop: Stop | None = None
    stop_token_ids: Annotated[list[int], _FAIL_FAST] | None = None
    n: Annotated[int, Field(ge=1)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = None
    cache_salt: (
        Annotated[
            str,
            Field(min_length=1, description="Computed prefixes are shared only with requests of this salt."),
        ]
        | None
    ) = None
    prompt_cache_key: (
        Annotated[str, Field(min_length=1, description="Requests of one key go to the same verifier.")] | None
    ) = None
    timeout_s: (
        Annotated[float, Field(gt=0, description="Give up after so long, or when the server does.")] | None
    ) = None
    priority: (
        Annotated[int, Field(ge=0, le=1, description="0: interactive; 1: batch, which yields to the others.")]
        | None
    ) = None
    num_speculative_tokens: (
        Annotated[int, Field(ge=0, le=255, description="Cap on draft tokens per step; 0: plain decoding.")]
        | None
    ) = None

    @property
    def stops(self) -> tuple[str, ...]:
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def likeliest(self) -> int | None:
        """Of how many of the likeliest tokens to tell log-probabilities, beside the token that was said.

        None: of no token at all.
        """
        return None

    @property
    def echoes(self) -> bool:
        """Whether the prompt is a part of the answer."""
        return False

    @property
    def prompt_only(self) -> bool:
        """Whether it is all of the answer."""
        return False


class ChatCompletionRequest(CompletionRequest):
    messages: Annotated[list[ChatMessage], Field(min_length=1, fail_fast=True)]
    logprobs: bool | None = None
    top_logprobs: (
        Annotated[int, Field(ge=0, le=20, description="How many of the likeliest tokens are told.")] | None
    ) = None
    max_completion_tokens: Annotated[int, Field(ge=1, description="The newer name of max_tokens.")] | None = (
        None
    )

    @property
    def likeliest(self) -> int | None:
        return self.top_logprobs or 0 if self.logprobs else None


class TextCompletionRequest(CompletionRequest):
    prompt: Prompt
    max_tokens: Annotated[int, Field(ge=0, description="0 needs echo: the prompt alone.")] | None = None
    logprobs: (
        Annotated[int, Field(ge=0, le=5, description="How many of the likeliest tokens are told.")] | None
    ) = None
    echo: Annotated[bool, Field(description="Begin with the prompt.")] | None = None
    best_of: Annotated[int, Field(ge=1, description="Only as many as n.")] | None = None

    @property
    def likeliest(self) -> int | None:
        return self.logprobs

    @property
    def echoes(self) -> bool:
        return bool(self.echo)

    @property
    def prompt_only(self) -> bool:
        return self.max_tokens == 0

    @property
    def prompts(self) -> list[str | list[int]]:
        """Each is completed on its own."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if not self.prompt or isinstance(self.prompt[0], int):
            return [cast(list[int], self.prompt)]
        return cast(list[str | list[int]], self.prompt)


class TokenizeRequest(BaseModel):
    """A text, or a conversation; special tokens are added to a text and not to a conversation by default."""

    model_config = _REFUSE_UNKNOWN

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1, fail_fast=True)] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    return_token_strs: bool | None = None


class DetokenizeRequest(BaseModel):
    model_config = _FORBID_UNKNOWN

    model: str | None = None
    tokens: Annotated[list[int], _FAIL_FAST]
