"""Errors as OpenAI writes them: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from serving.api.record import RequestRecord
from serving.api.responses import ErrorBody
from serving.errors import AuthenticationError, CanopyError, RequestError


def error_body(error: CanopyError) -> ErrorBody:
    param = error.param if isinstance(error, RequestError) else None
    return {"error": {"message": str(error), "type": error.kind, "param": param, "code": error.code}}


def error_response(error: CanopyError) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, AuthenticationError) else {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    return JSONResponse(error_body(error), error.status, headers)


async def on_canopy_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, CanopyError)
    RequestRecord.of(request).error = error
    return error_response(error)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Unknown routes and methods."""
    assert isinstance(error, HTTPException)
    body: ErrorBody = {
        "error": {
            "message": f"{request.method} {request.url.path}: {error.detail}",
            "type": "invalid_request_error" if error.status_code < 500 else "server_error",
            "param": None,
            "code": HTTPStatus(error.status_code).name.lower(),
        }
    }
    return JSONResponse(body, error.status_code, error.headers)
