"""OpenAI's routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from serving.api.answer import EventStream, whole_answer
from serving.api.auth import ApiKeys
from serving.api.body import parse_body, read_body
from serving.api.call import Call, chat_call, text_call
from serving.api.deadline import deadline
from serving.api.disconnect import until_disconnect
from serving.api.formats import ChatFormat, Format, TextFormat
from serving.api.no_ops import refuse_unsupported
from serving.api.openapi import describes_body, or_stream_of
from serving.api.record import RequestRecord
from serving.api.requests import ChatCompletionRequest, TextCompletionRequest
from serving.api.responses import (
    ChatCompletion,
    ChatCompletionChunk,
    ModelInfo,
    ModelList,
    TextCompletion,
    TextCompletionChunk,
)
from serving.router.service import Service
from serving.types import ModelCard

Body = TypeVar("Body", ChatCompletionRequest, TextCompletionRequest)


def service_of(request: Request) -> Service:
    return cast(Service, request.app.state.service)


async def authenticate(request: Request) -> None:
    keys: ApiKeys = request.app.state.keys
    keys.check(request.headers.get("authorization"))


router = APIRouter(prefix="/v1", dependencies=[Depends(authenticate)])


@router.post(
    "/chat/completions",
    response_model=ChatCompletion,
    responses=or_stream_of(ChatCompletionChunk),
    openapi_extra=describes_body(ChatCompletionRequest),
)
async def create_chat_completion(request: Request) -> Response:
    return await _complete(request, ChatCompletionRequest, chat_call, ChatFormat)


@router.post(
    "/completions",
    response_model=TextCompletion,
    responses=or_stream_of(TextCompletionChunk),
    openapi_extra=describes_body(TextCompletionRequest),
)
async def create_completion(request: Request) -> Response:
    return await _complete(request, TextCompletionRequest, text_call, TextFormat)


@router.get("/models")
async def list_models(request: Request) -> ModelList:
    return {"object": "list", "data": [_model_info(service_of(request).model.card)]}


@router.get("/models/{model_id:path}")
async def get_model(request: Request, model_id: str) -> ModelInfo:
    return _model_info(service_of(request).model_named(model_id).card)


async def _complete(
    request: Request,
    schema: type[Body],
    make_call: Callable[[Service, Body, RequestRecord], Awaitable[Call]],
    make_format: Callable[[Call], Format],
) -> Response:
    """Read, check, generate, answer."""
    service, record = service_of(request), RequestRecord.of(request)
    await service.connected()
    config = service.config.router
    body = parse_body(schema, await read_body(request, config.max_body_bytes))
    refuse_unsupported(body)
    call = await make_call(service, body, record)
    record.details = call.log_fields
    form = make_format(call)
    timeout_s = min(body.timeout_s or config.request_timeout_s, config.request_timeout_s)
    if body.stream:
        return EventStream(call, form, record, timeout_s)
    async with deadline(timeout_s):
        return await until_disconnect(request.receive, whole_answer(call, form))


def _model_info(card: ModelCard) -> ModelInfo:
    return {
        "id": card.name,
        "object": "model",
        "created": card.created,
        "owned_by": "canopy",
        "max_model_len": card.max_model_len,
    }
