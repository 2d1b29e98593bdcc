"""Request schemas in the OpenAPI document, although the routes read raw bodies."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from serving.api.requests import (
    ChatCompletionRequest,
    DetokenizeRequest,
    TextCompletionRequest,
    TokenizeRequest,
)

_REFERENCE = "#/components/schemas/{model}"
_BODIES = (ChatCompletionRequest, TextCompletionRequest, TokenizeRequest, DetokenizeRequest)


def describes_body(schema: type[BaseModel]) -> dict[str, Any]:
    """A route's `openapi_extra`."""
    content = {"application/json": {"schema": {"$ref": _REFERENCE.format(model=schema.__name__)}}}
    return {"requestBody": {"required": True, "content": content}}


def add_request_schemas(app: FastAPI) -> None:
    """Make `app.openapi()` define what `describes_body` refers to."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        document = generate()
        _, definitions = models_json_schema(
            [(schema, "validation") for schema in _BODIES], ref_template=_REFERENCE
        )
        document["components"]["schemas"].update(definitions["$defs"])
        return document

    app.openapi = openapi  # type: ignore[method-assign]
