"""What every HTTP route shares: the configuration, the verifiers, and the model once they have shown it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from serving.config import ServeConfig
from serving.errors import CanopyError, ModelNotFoundError, TokenizerReplacedError, UnavailableError
from serving.metrics import RouterMetrics
from serving.router.backend import Backend
from serving.router.model import ServedModel
from serving.types import GenerationRequest, TokenDelta

logger = logging.getLogger(__name__)

_DESCRIBE_TIMEOUT_S = 10.0
_RETRY_S = 0.5


class Service:
    """Not ready until `connect` has read a verifier's card, nor while it reads that of another model."""

    def __init__(self, config: ServeConfig, backend: Backend) -> None:
        self.config = config
        self._backend = backend
        self.metrics = RouterMetrics(config.model_name)
        self._model: ServedModel | None = None
        self._why_not_ready = "the model is being loaded"
        self._connected = asyncio.Event()

    @property
    def model(self) -> ServedModel:
        """Raises UnavailableError, saying why, before there is one."""
        if self._model is None:
            raise UnavailableError(f"not ready: {self._why_not_ready}")
        return self._model

    def model_named(self, name: str | None) -> ServedModel:
        """The model. Raises ModelNotFoundError where another is asked for by name."""
        served = self.model.card.name
        if name not in (None, served):
            raise ModelNotFoundError(f"the model {name!r} is not served here; {served!r} is", "model")
        return self.model

    async def connected(self) -> None:
        """Wait a little for `connect`: a router that has just started must not fail what others serve."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._connected.wait(), self.config.router.connect_wait_s)

    async def check(self) -> None:
        """Raises UnavailableError when requests cannot be served now.

        Where autoscaling may leave no verifier, the next request brings one, and asking would bring it too.
        """
        _ = self.model
        if self.config.replicas.verifiers == 0:
            return
        await self._backend.ping()

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[TokenDelta, None]:
        """As the backend does. Where another model is served now, its card is read for the next requests."""
        try:
            async with aclosing(self._backend.generate(request)) as deltas:
                async for delta in deltas:
                    yield delta
        except TokenizerReplacedError:
            self._forget(request)
            raise

    def _forget(self, request: GenerationRequest) -> None:
        if self._model is not None and self._model.tokenizer == request.tokenizer:
            self._model, self._why_not_ready = None, "another model is served now"
            self._connected.clear()
            self._reconnecting = asyncio.create_task(self.connect())

    async def connect(self) -> None:
        """Ask for the model's card until a verifier hands it out."""
        while self._model is None:
            try:
                card = await asyncio.wait_for(self._backend.describe(), _DESCRIBE_TIMEOUT_S)
                self._model = ServedModel(card)
                self._connected.set()
            except TimeoutError:
                self._why_not_ready = "no verifier has answered yet"
            except CanopyError as error:
                self._why_not_ready = str(error)
            except Exception:
                logger.exception("cannot describe the model")
                self._why_not_ready = "the verifier cannot describe its model; the log says why"
            else:
                logger.info("ready", extra={"fields": {"model": card.name, "fingerprint": card.fingerprint}})
                return
            await asyncio.sleep(_RETRY_S)
