"""For those who run the service: alive, ready, metrics. Open without a key."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import PlainTextResponse, Response

from serving import metrics
from serving.api.responses import Status
from serving.api.routes import service_of

router = APIRouter()


@router.get("/health")
async def health() -> Status:
    """The process answers. It says nothing of the model."""
    return {"status": "ok"}


@router.get("/ready")
async def ready(request: Request) -> Status:
    """The model is known and a verifier is in service, where one must be; otherwise 503 with the reason."""
    service = service_of(request)
    await service.check()
    return {"status": f"serving {service.model.card.name}"}


@router.get("/metrics", response_class=PlainTextResponse)
async def merged_metrics() -> Response:
    """Prometheus text of all processes of this machine."""
    return Response(await asyncio.to_thread(metrics.render), media_type=CONTENT_TYPE_LATEST)
