"""Answers as the model gave them, and as OpenAI's clients read them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """finish_reason: stop, length or content_filter; tokens as Bedrock counts them."""

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Answer:
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Envelope:
    """What every part of an answer says."""

    id: str
    created: int
    model: str

    @classmethod
    def new(cls, model: str) -> Envelope:
        return cls(f"chatcmpl-{uuid.uuid4().hex}", int(time.time()), model)

    def whole(self, answer: Answer) -> bytes:
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": answer.text},
            "logprobs": None,
            "finish_reason": answer.finish_reason,
        }
        body = self._body("chat.completion") | {"choices": [choice], "usage": _usage(answer)}
        return json.dumps(body).encode()

    def events(self, parts: Iterable[str | Answer], include_usage: bool) -> Iterator[bytes]:
        """Server-sent events: texts as they come, then the whole answer, which ends the stream."""
        yield self._chunk({"role": "assistant", "content": ""})
        for part in parts:
            if isinstance(part, str):
                yield self._chunk({"content": part})
            else:
                yield self._chunk({}, part.finish_reason)
                if include_usage:
                    yield sse(self._body("chat.completion.chunk") | {"choices": [], "usage": _usage(part)})
        yield DONE

    def _chunk(self, delta: dict[str, str], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return sse(self._body("chat.completion.chunk") | {"choices": [choice]})

    def _body(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


DONE = b"data: [DONE]\n\n"


def sse(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def _usage(answer: Answer) -> dict[str, int]:
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
    }
