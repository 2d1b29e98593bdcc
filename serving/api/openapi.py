"""What the OpenAPI document cannot learn from the routes, which read raw bodies and write raw responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from serving.api.requests import (
    ChatCompletionRequest,
    DetokenizeRequest,
    TextCompletionRequest,
    TokenizeRequest,
)
from serving.api.responses import ChatCompletionChunk, ErrorBody, TextCompletionChunk

_REFERENCE = "#/components/schemas/{model}"
_BODIES = (ChatCompletionRequest, TextCompletionRequest, TokenizeRequest, DetokenizeRequest)
_CHUNKS = (ChatCompletionChunk, TextCompletionChunk)

ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "The request is wrong; `param` names the field."},
    "5XX": {"model": ErrorBody, "description": "The service cannot answer now."},
}


def describes_body(schema: type[BaseModel]) -> dict[str, Any]:
    """A route's `openapi_extra`."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _ref(schema)}}}}


def or_stream_of(chunk: type[Mapping[str, Any]]) -> dict[int | str, dict[str, Any]]:
    """A route's `responses` where it may also answer by server-sent events; the schema is that of one."""
    data = {
        "anyOf": [
            {"const": "[DONE]"},
            {
                "contentMediaType": "application/json",
                "contentSchema": {"anyOf": [_ref(chunk), _ref(ErrorBody)]},
            },
        ]
    }
    event = {"type": "object", "properties": {"data": {"type": "string", **data}}, "required": ["data"]}
    return {200: {"content": {"text/event-stream": {"schema": event}}}}


def add_schemas(app: FastAPI) -> None:
    """Make `app.openapi()` define what the above refers to."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        document = generate()
        document["components"]["schemas"].update(_definitions())
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _definitions() -> dict[str, Any]:
    _, bodies = models_json_schema([(body, "validation") for body in _BODIES], ref_template=_REFERENCE)
    definitions = dict(bodies["$defs"])
    for chunk in _CHUNKS:
        schema = TypeAdapter(chunk).json_schema(ref_template=_REFERENCE)
        definitions.update(schema.pop("$defs"))
        definitions[chunk.__name__] = schema
    return definitions


def _ref(schema: type[Any]) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(model=schema.__name__)}
