"""From a gateway's event to a reply: who asks, for what, was it answered before, what does the model say."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config

from chat_lambda.answer import DONE, Answer, Envelope, sse
from chat_lambda.cache import Cache, key_of
from chat_lambda.chat_request import ChatRequest
from chat_lambda.errors import RequestError
from chat_lambda.keys import Keys
from chat_lambda.log import log
from chat_lambda.model import Model
from chat_lambda.settings import Settings
from chat_lambda.tokens import estimated_tokens

PATH = "/v1/chat/completions"
_JSON = {"Content-Type": "application/json"}
_EVENTS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}


@dataclass(frozen=True)
class Reply:
    """`body` may be written while it is read."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Iterable[bytes] = ()


class Application:
    """One per process: its clients keep their connections from request to request."""

    def __init__(self, settings: Settings) -> None:
        """Clients as the environment says (region, credentials, AWS_ENDPOINT_URL)."""
        # A retry must fit into the client's patience; an answer may take minutes.
        bedrock = Config(read_timeout=290, retries={"total_max_attempts": 2, "mode": "standard"})
        quick = Config(
            connect_timeout=2, read_timeout=2, retries={"total_max_attempts": 2, "mode": "standard"}
        )
        self._settings = settings
        self._model = Model(boto3.client("bedrock-runtime", config=bedrock), settings.model_id)
        self._cache = Cache(
            boto3.client("dynamodb", config=quick), settings.cache_table, settings.cache_ttl_s
        )
        self._keys = Keys(boto3.client("secretsmanager", config=quick), settings.api_keys_secret)

    def answer(self, event: Mapping[str, Any]) -> Reply:
        """To an event of API Gateway's proxy integration. Never raises: a failure is a 500."""
        headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
        started = time.monotonic()
        try:
            reply = self._route(event, headers)
        except Exception as error:
            reply = _error(_explained(error))
        log("answered", status=reply.status, ms=round(1000 * (time.monotonic() - started)))
        return Reply(reply.status, {**reply.headers, **self._cors(headers)}, reply.body)

    def _route(self, event: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
        method, path = event.get("httpMethod"), event.get("path")
        if path != PATH:
            raise RequestError(f"there is nothing at {path}", status=404, code="not_found")
        if method == "OPTIONS":
            return Reply(204)
        if method != "POST":
            raise RequestError(f"{method} is not allowed", status=405, code="method_not_allowed")
        self._keys.check(headers.get("authorization", ""))
        request = ChatRequest.parse(_body(event))
        self._admit(request)
        return self._complete(request)

    def _admit(self, request: ChatRequest) -> None:
        settings = self._settings
        if request.model != settings.model_id:
            raise RequestError(
                f"there is no model {request.model!r}; this is {settings.model_id}",
                "model",
                status=404,
                code="model_not_found",
            )
        if (tokens := estimated_tokens(request.texts)) > settings.max_prompt_tokens:
            raise RequestError(
                f"messages are about {tokens} tokens; at most {settings.max_prompt_tokens} are accepted",
                "messages",
                code="context_length_exceeded",
            )
        if any(pattern.search(text) for pattern in settings.forbidden_patterns for text in request.texts):
            raise RequestError(
                "messages contain what is not accepted here", "messages", code="content_policy_violation"
            )

    def _complete(self, request: ChatRequest) -> Reply:
        envelope = Envelope.new(request.model)
        key = key_of(self._model.arguments(request)) if request.deterministic else None
        known = self._cache.get(key) if key else None
        if not request.stream:
            answer = known or self._remembered(key, self._model.answer(request))
            return Reply(200, _JSON | _hit(known), [envelope.whole(answer)])
        parts: Iterator[str | Answer]
        parts = iter([known.text, known]) if known else self._remembering(key, self._model.stream(request))
        return Reply(200, _EVENTS | _hit(known), _guarded(envelope.events(parts, request.include_usage)))

    def _remembering(self, key: str | None, parts: Iterator[str | Answer]) -> Iterator[str | Answer]:
        for part in parts:
            yield part if isinstance(part, str) else self._remembered(key, part)

    def _remembered(self, key: str | None, answer: Answer) -> Answer:
        if key:
            self._cache.put(key, answer)
        return answer

    def _cors(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Only for pages of the allowed origins; other clients need none of it."""
        origin = headers.get("origin")
        allowed = self._settings.allowed_origins
        if origin is None or not {origin, "*"} & set(allowed):
            return {}
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Methods": "POST, OPTIONS",
            "Access-Control-Allow-Headers": "Authorization, Content-Type",
            "Access-Control-Max-Age": "600",
            "Vary": "Origin",
        }


def _body(event: Mapping[str, Any]) -> bytes:
    body = event.get("body") or ""
    return base64.b64decode(body) if event.get("isBase64Encoded") else body.encode()


def _hit(known: Answer | None) -> dict[str, str]:
    return {"X-Cache": "hit" if known else "miss"}


def _error(error: RequestError) -> Reply:
    challenge = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    return Reply(error.status, _JSON | challenge, [json.dumps(error.body()).encode()])


def _explained(error: Exception) -> RequestError:
    """What a client is told of it."""
    if isinstance(error, RequestError):
        return error
    log("failed", error=repr(error))
    return RequestError("internal error", status=500, code="internal_error")


def _guarded(events: Iterator[bytes]) -> Iterator[bytes]:
    """The status has been sent: what goes wrong now is an event, and the stream ends as clients expect."""
    try:
        yield from events
    except Exception as error:
        told = _explained(error)
        log("broke off", status=told.status, error=str(told))
        yield sse(told.body())
        yield DONE
