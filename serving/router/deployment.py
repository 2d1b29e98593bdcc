"""The router as a Ray Serve deployment: where HTTP, the service and the verifiers' handle meet."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from contextvars import Context
from copy import copy
from typing import Any, cast

from fastapi import FastAPI
from ray import serve
from ray.exceptions import NodeDiedError, OwnerDiedError, RayActorError, RayTaskError, WorkerCrashedError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError
from ray.serve.handle import DeploymentHandle, DeploymentResponseGenerator

from serving.api.app import create_app
from serving.config import ServeConfig
from serving.errors import CanopyError, OverloadedError, UnavailableError, VerifierLostError
from serving.logs import configure_logging
from serving.metrics import RouterMetrics, start_exporter
from serving.router.replay import Replaying
from serving.router.service import Service
from serving.router.waiting import WaitingRoom, open_room
from serving.types import GenerationRequest, ModelCard, TokenDelta

logger = logging.getLogger(__name__)

_LOST = (RayActorError, WorkerCrashedError, NodeDiedError, OwnerDiedError)


class VerifierPool:
    """The verifier deployment as a `Backend`."""

    def __init__(self, handle: DeploymentHandle[Any], room: WaitingRoom) -> None:
        """room: where requests wait until a verifier has taken them."""
        open_room(handle.app_name, room)
        self._room = room
        self._handle = handle
        self._streaming = handle.options(stream=True)

    async def describe(self) -> ModelCard:
        with _callers_errors():
            card: ModelCard = await self._handle.describe.remote()
            return card

    async def ping(self) -> None:
        """Serve knows which verifiers can take requests: a call would wait in their queues."""
        if not self._room.verifiers:
            raise UnavailableError("not ready: no verifier is in service")

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[TokenDelta, None]:
        deltas: DeploymentResponseGenerator[Any] | None = None
        finished = False
        with _callers_errors():
            try:
                async with self._room.place(request):
                    deltas = self._start(request)
                    delta: TokenDelta | None = await anext(deltas, None)
                while delta is not None:
                    finished = delta.finish_reason is not None
                    yield delta
                    delta = await anext(deltas, None)
            finally:
                if deltas is not None and not finished:
                    deltas.cancel()  # type: ignore[no-untyped-call]

    def _start(self, request: GenerationRequest) -> DeploymentResponseGenerator[Any]:
        """In a context of its own: by an id in the context Serve tells calls that wait apart, and of several
        choices of one client's request only one would ever be sent."""
        start = self._streaming.generate.remote
        return cast(DeploymentResponseGenerator[Any], Context().run(start, request))


@contextmanager
def _callers_errors() -> Generator[None, None, None]:
    """Ray's exceptions as CanopyErrors; the verifier's own come out of their wrapping.

    As copies: raised itself, the cause would have the error around it as its context. Such a cycle keeps the
    frames of the call, and what they refer to in Ray, until some day the garbage is collected.
    """
    try:
        yield
    except RayTaskError as error:
        if isinstance(error.cause, CanopyError):
            raise copy(error.cause) from None
        if isinstance(error.cause, _LOST):
            raise _lost() from error
        raise
    except BackPressureError as error:
        raise OverloadedError("every verifier's queue is full; try again later") from error
    except (DeploymentUnavailableError, ReplicaUnavailableError) as error:
        raise UnavailableError("no verifier is ready; try again") from error
    except _LOST as error:
        raise _lost() from error


def _lost() -> VerifierLostError:
    return VerifierLostError("the verifier that worked on this request was lost; try again")


@serve.deployment
@serve.ingress()
class Router:
    """Stateless: any number of replicas. `verifier` is the verifier deployment's handle."""

    def __init__(self, config: ServeConfig, verifier: DeploymentHandle[Any]) -> None:
        configure_logging(config.log_level)
        start_exporter(config.replicas.router_metrics_port)
        metrics, settings = RouterMetrics(config.model_name), config.router
        # Where autoscaling may leave no verifier, a request that waits brings one.
        wait_s = settings.connect_wait_s if config.replicas.verifiers else None
        room = WaitingRoom(settings.max_queued_requests, wait_s, metrics)
        self._service = Service(config, Replaying(VerifierPool(verifier, room), settings, metrics))

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Called by Serve once the replica is constructed. Serve's proxy adds the X-Request-Id header."""
        return create_app(self._service, set_request_id=False)
