"""The two shapes of an answer, whole or in chunks: chat and text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from serving.api.call import Call, finish_word
from serving.api.logprobs import chat_logprobs, text_logprobs
from serving.api.responses import (
    ChatChunkChoice,
    ChatCompletion,
    ChatCompletionChunk,
    TextChoice,
    TextCompletion,
    TextCompletionChunk,
)
from serving.router.choice import ToldToken
from serving.types import FinishReason

Chunk = ChatCompletionChunk | TextCompletionChunk


Tokens = Sequence[ToldToken]


class Finished(NamedTuple):
    """A complete choice. tokens: where log-probabilities are asked for, else none."""

    text: str
    reason: FinishReason
    tokens: Tokens = ()


class Format(Protocol):
    """Writes one call's answer."""

    def opening(self, index: int) -> Chunk | None:
        """What comes before a choice's first text."""

    def text(self, index: int, text: str, tokens: Tokens) -> Chunk: ...

    def closing(self, index: int, reason: FinishReason) -> Chunk: ...

    def tail(self) -> Chunk:
        """A chunk without choices."""

    def whole(self, choices: Sequence[Finished]) -> ChatCompletion | TextCompletion: ...


class ChatFormat:
    def __init__(self, call: Call) -> None:
        self._call = call

    def opening(self, index: int) -> ChatCompletionChunk:
        return self._chunk(
            {
                "index": index,
                "delta": {"role": "assistant", "content": ""},
                "logprobs": None,
                "finish_reason": None,
            }
        )

    def text(self, index: int, text: str, tokens: Tokens) -> ChatCompletionChunk:
        logprobs = chat_logprobs(self._call.model, tokens)
        return self._chunk(
            {"index": index, "delta": {"content": text}, "logprobs": logprobs, "finish_reason": None}
        )

    def closing(self, index: int, reason: FinishReason) -> ChatCompletionChunk:
        return self._chunk(
            {"index": index, "delta": {}, "logprobs": None, "finish_reason": finish_word(reason)}
        )

    def tail(self) -> ChatCompletionChunk:
        return self._chunk()

    def whole(self, choices: Sequence[Finished]) -> ChatCompletion:
        return {
            "id": self._call.id,
            "object": "chat.completion",
            "created": self._call.created,
            "model": self._call.model.card.name,
            "system_fingerprint": self._call.model.card.fingerprint,
            "choices": [
                {
                    "index": index,
                    "message": {"role": "assistant", "content": choice.text},
                    "logprobs": chat_logprobs(self._call.model, choice.tokens),
                    "finish_reason": finish_word(choice.reason),
                }
                for index, choice in enumerate(choices)
            ],
            "usage": self._call.usage(),
            "speculation": self._call.speculation(),
        }

    def _chunk(self, *choices: ChatChunkChoice) -> ChatCompletionChunk:
        return {
            "id": self._call.id,
            "object": "chat.completion.chunk",
            "created": self._call.created,
            "model": self._call.model.card.name,
            "system_fingerprint": self._call.model.card.fingerprint,
            "choices": list(choices),
        }


class TextFormat:
    def __init__(self, call: Call) -> None:
        self._call = call

    def opening(self, index: int) -> None:
        return None

    def text(self, index: int, text: str, tokens: Tokens) -> TextCompletionChunk:
        return self._chunk(self._choice(index, text, None, tokens))

    def closing(self, index: int, reason: FinishReason) -> TextCompletionChunk:
        return self._chunk(self._choice(index, "", reason))

    def tail(self) -> TextCompletionChunk:
        return self._chunk()

    def whole(self, choices: Sequence[Finished]) -> TextCompletion:
        chunk = self._chunk(*(self._choice(index, *choice) for index, choice in enumerate(choices)))
        return {**chunk, "usage": self._call.usage(), "speculation": self._call.speculation()}

    def _chunk(self, *choices: TextChoice) -> TextCompletionChunk:
        return {
            "id": self._call.id,
            "object": "text_completion",
            "created": self._call.created,
            "model": self._call.model.card.name,
            "system_fingerprint": self._call.model.card.fingerprint,
            "choices": list(choices),
        }

    def _choice(self, index: int, text: str, reason: FinishReason | None, tokens: Tokens = ()) -> TextChoice:
        return {
            "index": index,
            "text": text,
            "logprobs": text_logprobs(self._call.model, tokens),
            "finish_reason": None if reason is None else finish_word(reason),
        }
