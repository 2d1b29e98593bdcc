"""Lambda's runtime API, with answers handed over while they are written.

AWS's own Python client hands over whole answers only. A streamed one is a POST in chunks: JSON with status
and headers, eight zero bytes, the body (AWS Lambda Developer Guide, "Using the Lambda runtime API for custom
runtimes" and "Response streaming for Lambda functions").
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from typing import Any, NamedTuple

from chat_lambda.application import Application, Reply
from chat_lambda.log import log
from chat_lambda.settings import Settings

_ROOT = "/2018-06-01/runtime"
_STREAM = {
    "Lambda-Runtime-Function-Response-Mode": "streaming",
    "Content-Type": "application/vnd.awslambda.http-integration-response",
    "Transfer-Encoding": "chunked",
}


class Invocation(NamedTuple):
    id: str
    event: Mapping[str, Any]


def run() -> None:
    """Answer invocations until the environment is frozen for ever."""
    api = os.environ["AWS_LAMBDA_RUNTIME_API"]
    try:
        application = Application(Settings.load(os.environ))
    except Exception as error:
        log("cannot start", error=str(error))
        _post(api, "/init/error", {"errorMessage": str(error), "errorType": type(error).__name__})
        sys.exit(1)
    while True:
        serve_one(api, application)


def serve_one(api: str, application: Application) -> None:
    """Wait for an invocation and answer it. `api` is host:port."""
    invocation = _next(api)
    reply = application.answer(invocation.event)
    connection = HTTPConnection(api)
    try:
        path = f"{_ROOT}/invocation/{invocation.id}/response"
        connection.request("POST", path, body=_stream(reply), headers=_STREAM, encode_chunked=True)
        connection.getresponse().read()
    except OSError as error:
        log("client gone", error=str(error))
    finally:
        connection.close()


def _next(api: str) -> Invocation:
    """Waits as long as it takes: the environment is frozen meanwhile."""
    connection = HTTPConnection(api)
    try:
        connection.request("GET", f"{_ROOT}/invocation/next")
        response = connection.getresponse()
        os.environ["_X_AMZN_TRACE_ID"] = response.headers.get("Lambda-Runtime-Trace-Id", "")
        return Invocation(response.headers["Lambda-Runtime-Aws-Request-Id"], json.load(response))
    finally:
        connection.close()


def _stream(reply: Reply) -> Iterator[bytes]:
    yield json.dumps({"statusCode": reply.status, "headers": dict(reply.headers)}).encode() + bytes(8)
    yield from reply.body


def _post(api: str, path: str, body: dict[str, str]) -> None:
    connection = HTTPConnection(api)
    connection.request("POST", _ROOT + path, json.dumps(body), {"Content-Type": "application/json"})
    connection.getresponse().read()
    connection.close()
