"""What the API answers, as typed dictionaries: they document the fields and cost nothing per token."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

Finish = Literal["stop", "length"]


class PromptTokensDetails(TypedDict):
    """cached_tokens: those that did not have to be computed, because the prefix cache had them."""

    cached_tokens: int


class Usage(TypedDict):
    """True counts: every token up to the end of each choice, whatever the number of chunks."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class Speculation(TypedDict):
    """Extension: how speculation went, summed over the choices, and the seed that repeats this answer.

    tau: mean tokens committed per decode step. The counts are null where no verifier reported any.
    """

    draft_tokens: int | None
    accepted_tokens: int | None
    steps: int | None
    tau: float | None
    seed: int


class TopLogprob(TypedDict):
    """`bytes` of the token on its own; where they are not whole characters, `token` writes them as \\x.."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(TopLogprob):
    top_logprobs: list[TopLogprob]


class ChatLogprobs(TypedDict):
    """One entry per token that counts as completion token, a stop token included."""

    content: list[TokenLogprob]
    refusal: None


class TextLogprobs(TypedDict):
    """One entry per token, an echoed prompt's included; its first token has no log-probability.

    top_logprobs: the likeliest tokens and the one that was said. text_offset: where each token's text begins.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class Message(TypedDict):
    role: Literal["assistant"]
    content: str


class Delta(TypedDict, total=False):
    role: Literal["assistant"]
    content: str


class ChatChoice(TypedDict):
    index: int
    message: Message
    logprobs: ChatLogprobs | None
    finish_reason: Finish


class ChatChunkChoice(TypedDict):
    index: int
    delta: Delta
    logprobs: ChatLogprobs | None
    finish_reason: Finish | None


class TextChoice(TypedDict):
    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: Finish | None


class _Answer(TypedDict):
    id: str
    created: int
    model: str
    system_fingerprint: str


class ChatCompletion(_Answer):
    object: Literal["chat.completion"]
    choices: list[ChatChoice]
    usage: Usage
    speculation: Speculation


class TextCompletion(_Answer):
    object: Literal["text_completion"]
    choices: list[TextChoice]
    usage: Usage
    speculation: Speculation


class ChatCompletionChunk(_Answer):
    object: Literal["chat.completion.chunk"]
    choices: list[ChatChunkChoice]
    usage: NotRequired[Usage | None]
    speculation: NotRequired[Speculation]


class TextCompletionChunk(_Answer):
    object: Literal["text_completion"]
    choices: list[TextChoice]
    usage: NotRequired[Usage | None]
    speculation: NotRequired[Speculation]


class ModelInfo(TypedDict):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int


class ModelList(TypedDict):
    object: Literal["list"]
    data: list[ModelInfo]


class TokenList(TypedDict):
    """token_strs: as the vocabulary writes them, where asked for."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class Text(TypedDict):
    prompt: str


class Status(TypedDict):
    status: str


class ErrorDetail(TypedDict):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(TypedDict):
    error: ErrorDetail
