"""The model behind Bedrock's Converse API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError, EventStreamError

from chat_lambda.answer import Answer
from chat_lambda.chat_request import ChatRequest
from chat_lambda.errors import RequestError

Result = TypeVar("Result")

_FINISH = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}
# Bedrock's error -> status and code of ours. What is not here is a 502.
_ERRORS = {
    "ThrottlingException": (429, "rate_limit_exceeded"),
    "ServiceQuotaExceededException": (429, "rate_limit_exceeded"),
    "ValidationException": (400, "invalid_value"),
    "ModelTimeoutException": (504, "timeout"),
    "ModelNotReadyException": (503, "unavailable"),
    "ServiceUnavailableException": (503, "unavailable"),
    "AccessDeniedException": (500, "bad_configuration"),
    "ResourceNotFoundException": (500, "bad_configuration"),
}


class Model:
    """`client` is boto3's bedrock-runtime."""

    def __init__(self, client: Any, model_id: str) -> None:
        self._client = client
        self._model_id = model_id

    def arguments(self, request: ChatRequest) -> dict[str, Any]:
        """Of a Converse call: all that the answer depends on."""
        inference = {
            "maxTokens": request.max_tokens,
            "temperature": request.temperature,
            "topP": request.top_p,
            "stopSequences": list(request.stop) or None,
        }
        arguments: dict[str, Any] = {
            "modelId": self._model_id,
            "messages": [{"role": turn.role, "content": [{"text": turn.text}]} for turn in request.turns],
            "inferenceConfig": {name: value for name, value in inference.items() if value is not None},
        }
        if request.system:
            arguments["system"] = [{"text": text} for text in request.system]
        return arguments

    def answer(self, request: ChatRequest) -> Answer:
        """The whole answer. Raises RequestError."""
        reply = _explained(lambda: self._client.converse(**self.arguments(request)))
        blocks = reply["output"]["message"]["content"]
        return _answer(
            "".join(block.get("text", "") for block in blocks), reply["stopReason"], reply["usage"]
        )

    def stream(self, request: ChatRequest) -> Iterator[str | Answer]:
        """Texts as they are written, then the whole answer.

        Raises RequestError: what is wrong before the first text is raised here, not while iterating.
        """
        reply = _explained(lambda: self._client.converse_stream(**self.arguments(request)))
        events = iter(reply["stream"])
        first = _explained(lambda: next(events, None))
        return _parts(first, events)


def _parts(first: dict[str, Any] | None, events: Iterator[dict[str, Any]]) -> Iterator[str | Answer]:
    texts: list[str] = []
    reason, usage = None, None
    event = first
    while event is not None:
        if text := event.get("contentBlockDelta", {}).get("delta", {}).get("text"):
            texts.append(text)
            yield text
        reason = event.get("messageStop", {}).get("stopReason", reason)
        usage = event.get("metadata", {}).get("usage", usage)
        event = _explained(lambda: next(events, None))
    if reason is None or usage is None:
        raise RequestError("the model's answer broke off", status=502, code="bad_gateway")
    yield _answer("".join(texts), reason, usage)


def _answer(text: str, reason: str, usage: dict[str, int]) -> Answer:
    return Answer(text, _FINISH.get(reason, "stop"), usage["inputTokens"], usage["outputTokens"])


def _explained(call: Callable[[], Result]) -> Result:
    try:
        return call()
    except (ClientError, EventStreamError) as error:
        found = error.response.get("Error", {})
        # Within a stream, names begin with a small letter.
        name = found.get("Code", "")
        status, code = _ERRORS.get(name[:1].upper() + name[1:], (502, "bad_gateway"))
        message = found.get("Message") or found.get("Code") or "no reason given"
        raise RequestError(f"Bedrock: {message}", status=status, code=code) from error
    except BotoCoreError as error:
        raise RequestError(f"Bedrock cannot be reached: {error}", status=502, code="bad_gateway") from error
