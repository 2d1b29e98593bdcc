"""What the router needs of a verifier."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from serving.types import GenerationRequest, ModelCard, TokenDelta


class TokenSource(Protocol):
    """Where requests are generated. Errors are CanopyErrors: UnavailableError when nothing is there."""

    def generate(self, request: GenerationRequest) -> AsyncGenerator[TokenDelta, None]:
        """The request's deltas, the last one final. Closing or cancelling the generator aborts the work."""


class Backend(TokenSource, Protocol):
    """The verifiers."""

    async def describe(self) -> ModelCard:
        """The model behind it."""

    async def ping(self) -> None:
        """Returns when some verifier can take requests."""
