"""The HTTP application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI
from starlette.exceptions import HTTPException

from serving.api import probes, routes, tokens
from serving.api.auth import ApiKeys
from serving.api.errors import on_canopy_error, on_http_exception
from serving.api.middleware import RequestContext
from serving.api.openapi import ERRORS, add_schemas
from serving.errors import CanopyError
from serving.router.service import Service


def create_app(service: Service, *, set_request_id: bool = True) -> FastAPI:
    """All routes over one service, which connects to its verifiers while the application runs.

    set_request_id: whether responses get `X-Request-Id` here (not where the server in front adds it).
    Raises ConfigError when the API keys cannot be read.
    """
    app = FastAPI(title="Canopy", description="OpenAI-compatible completions.", lifespan=_connected)
    app.state.service = service
    app.state.keys = ApiKeys.from_config(service.config.router)
    app.include_router(routes.router, responses=ERRORS)
    app.include_router(tokens.router, responses=ERRORS)
    app.include_router(probes.router, responses=ERRORS)
    app.add_exception_handler(CanopyError, on_canopy_error)
    app.add_exception_handler(HTTPException, on_http_exception)
    app.add_middleware(RequestContext, metrics=service.metrics, set_header=set_request_id)
    add_schemas(app)
    return app


@asynccontextmanager
async def _connected(app: FastAPI) -> AsyncGenerator[None, None]:
    connecting = asyncio.create_task(app.state.service.connect())
    yield
    connecting.cancel()
    with suppress(asyncio.CancelledError):
        await connecting
