"""A call's pieces become an answer: one JSON body, or server-sent events."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from serving.api.call import Call
from serving.api.deadline import deadline
from serving.api.disconnect import until_disconnect
from serving.api.errors import error_body
from serving.api.formats import Chunk, Finished, Format
from serving.api.record import RequestRecord
from serving.errors import CanopyError
from serving.router.choice import Piece
from serving.types import FinishReason

logger = logging.getLogger(__name__)

_DONE = b"data: [DONE]\n\n"
_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class JsonAnswer(Response):
    media_type = "application/json"

    def render(self, content: Mapping[str, Any]) -> bytes:
        return _to_json(content).encode()


async def whole_answer(call: Call, form: Format) -> Response:
    """Raises what the generation raises."""
    pieces_of: list[list[Piece]] = [[] for _ in call.generation.choices]
    async with aclosing(call.generation.pieces()) as pieces:
        async for piece in pieces:
            pieces_of[piece.choice].append(piece)
    return JsonAnswer(form.whole([_finished(pieces) for pieces in pieces_of]))


def _finished(pieces: Sequence[Piece]) -> Finished:
    text = "".join(piece.text for piece in pieces)
    tokens = [told for piece in pieces for told in piece.tokens]
    return Finished(text, pieces[-1].finish_reason or FinishReason.ERROR, tokens)


class EventStream(Response):
    """Starts when the first token is there, so that failures before it get their proper status.

    A later failure is an `error` event before `[DONE]`. The work ends when the client goes.
    """

    def __init__(self, call: Call, form: Format, record: RequestRecord, timeout_s: float) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers({"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"})
        self._events = _events(call, form)
        self._record = record
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await until_disconnect(receive, self._send_all(send))

    async def _send_all(self, send: Send) -> None:
        try:
            async with deadline(self._timeout_s), aclosing(self._events) as events:
                async for event in events:
                    if not self._record.response_started:
                        await send(
                            {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
                        )
                    if event:
                        await send({"type": "http.response.body", "body": event, "more_body": True})
        except Exception as error:
            if not self._record.response_started:
                raise
            event = _event(error_body(self._failure(error))) + _DONE
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _failure(self, error: Exception) -> CanopyError:
        if not isinstance(error, CanopyError):
            logger.error("unhandled error in a stream", exc_info=error)
            error = CanopyError("internal error")
        self._record.error = error
        return error


async def _events(call: Call, form: Format) -> AsyncGenerator[bytes, None]:
    """One item per piece (perhaps empty: the first token's text may be held back), then the end."""
    opened: set[int] = set()
    running = len(call.generation.choices)
    async with aclosing(call.generation.pieces()) as pieces:
        async for piece in pieces:
            chunks = _chunks(form, piece, opening=piece.choice not in opened)
            opened.add(piece.choice)
            running -= piece.finish_reason is not None
            if call.include_usage:
                for chunk in chunks:
                    chunk["usage"] = call.usage() if call.continuous_usage else None
            elif not running:
                chunks[-1]["speculation"] = call.speculation()
            yield b"".join(map(_event, chunks))
    if call.include_usage:
        tail = form.tail()
        tail["usage"], tail["speculation"] = call.usage(), call.speculation()
        yield _event(tail)
    yield _DONE


def _chunks(form: Format, piece: Piece, *, opening: bool) -> list[Chunk]:
    first = form.opening(piece.choice) if opening else None
    chunks = [] if first is None else [first]
    if piece.text or piece.tokens:
        chunks.append(form.text(piece.choice, piece.text, piece.tokens))
    if piece.finish_reason is not None:
        chunks.append(form.closing(piece.choice, piece.finish_reason))
    return chunks


def _event(data: Mapping[str, Any]) -> bytes:
    return f"data: {_to_json(data)}\n\n".encode()
