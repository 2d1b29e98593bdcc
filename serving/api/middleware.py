"""Around every request: its id, its log line, its count, and a last resort against bugs."""

from __future__ import annotations

import asyncio
import logging
import re
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving import logs
from serving.api.disconnect import ClientDisconnectedError
from serving.api.errors import error_response
from serving.api.record import RequestRecord
from serving.errors import CanopyError, RequestError
from serving.metrics import RouterMetrics

logger = logging.getLogger(__name__)

_ID_HEADER = "X-Request-Id"
_VALID_ID = re.compile(r"[\x21-\x7e]{1,128}")
_CLIENT_GONE = 499
_PROBES = frozenset({"/health", "/ready", "/metrics"})


class RequestContext:
    """ASGI middleware. `set_header=False` where the server in front already returns the request's id."""

    def __init__(self, app: ASGIApp, metrics: RouterMetrics, *, set_header: bool) -> None:
        self._app = app
        self._metrics = metrics
        self._set_header = set_header

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(_ID_HEADER)
        valid = given is not None and _VALID_ID.fullmatch(given) is not None
        record = RequestRecord(given if given is not None and valid else uuid4().hex)
        record.attach(scope)
        token = logs.request_id.set(record.request_id)
        self._metrics.in_flight.inc()
        try:
            app = self._app if given is None or valid else _refuse_id
            await self._guarded(app, scope, receive, self._recording(send, record), record)
        finally:
            self._metrics.in_flight.dec()
            self._conclude(scope, record)
            logs.request_id.reset(token)

    async def _guarded(
        self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, record: RequestRecord
    ) -> None:
        try:
            await app(scope, receive, send)
        except ClientDisconnectedError:
            record.status = _CLIENT_GONE
        except asyncio.CancelledError:
            record.status = _CLIENT_GONE
            raise
        except Exception:
            logger.exception("unhandled error")
            record.error = CanopyError("internal error")
            if not record.response_started:
                await error_response(record.error)(scope, receive, send)

    def _recording(self, send: Send, record: RequestRecord) -> Send:
        async def recording(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                if self._set_header:
                    MutableHeaders(scope=message)[_ID_HEADER] = record.request_id
            await send(message)

        return recording

    def _conclude(self, scope: Scope, record: RequestRecord) -> None:
        route = scope.get("route")
        self._metrics.answered("unmatched" if route is None else route.path, record.status)
        level = logging.DEBUG if scope["path"] in _PROBES else logging.INFO
        if logger.isEnabledFor(level):
            fields = {"method": scope["method"], "path": scope["path"], **record.log_fields()}
            logger.log(level, "request", extra={"fields": fields})


async def _refuse_id(scope: Scope, receive: Receive, send: Send) -> None:
    error = RequestError(f"{_ID_HEADER} must be 1 to 128 printable ASCII characters", _ID_HEADER)
    await error_response(error)(scope, receive, send)
