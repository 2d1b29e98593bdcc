"""A request's body: read within a limit, parsed strictly, refused by naming the field."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from serving.api.disconnect import ClientDisconnectedError
from serving.errors import BodyTooLargeError, RequestError, UnsupportedParameterError

Body = TypeVar("Body", bound=BaseModel)


async def read_body(request: Request, limit: int) -> bytes:
    """Raises BodyTooLargeError as soon as more than `limit` bytes are announced or have come."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise BodyTooLargeError(f"the body is over the limit of {limit} bytes")
    chunks = bytearray()
    try:
        async for chunk in request.stream():
            chunks += chunk
            if len(chunks) > limit:
                raise BodyTooLargeError(f"the body is over the limit of {limit} bytes")
    except ClientDisconnect:
        raise ClientDisconnectedError from None
    return bytes(chunks)


def parse_body(schema: type[Body], body: bytes) -> Body:
    """Raises RequestError for the first thing wrong, `param` being its path (`messages.0.content`)."""
    if not body:
        raise RequestError("the body is empty; a JSON object is expected", code="invalid_json")
    try:
        return schema.model_validate_json(body)
    except ValidationError as error:
        raise _request_error(error) from None


def _request_error(error: ValidationError) -> RequestError:
    first = error.errors(include_url=False, include_input=False)[0]
    # A schema writes the branch of a union as "<branch>": it is not in the client's words.
    path = ".".join(str(step) for step in first["loc"] if not str(step).startswith("<"))
    reason = first["msg"].removeprefix("Value error, ")
    if first["type"] == "json_invalid":
        return RequestError(f"the body is not valid JSON: {first['ctx']['error']}", code="invalid_json")
    if not path:
        return RequestError(f"the body is wrong: {reason}")
    if first["type"] == "extra_forbidden":
        return UnsupportedParameterError(f"{path} is not supported", path)
    return RequestError(f"{path}: {reason}", path)
