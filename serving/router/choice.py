"""One choice of a request: its tokens become text, and end where a stop string says so."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from serving.errors import GenerationError, UnavailableError
from serving.router.backend import Backend
from serving.router.detokenizer import Detokenizer
from serving.router.stops import StopMatcher
from serving.types import FinishReason, GenerationRequest, SpeculationStats, TokenDelta


class Piece(NamedTuple):
    """New text of one choice; possibly none. `finish_reason` is set on the last."""

    choice: int
    text: str
    finish_reason: FinishReason | None


class Choice:
    """`token_ids` holds every token that counts: all received, up to the one that completed a stop string.

    `stats` are the latest that the verifier sent: after a stop string they may include later steps.
    `cached_tokens` of the prompt were in its prefix cache.
    """

    def __init__(
        self, request: GenerationRequest, index: int, detokenizer: Detokenizer, stops: Sequence[str]
    ) -> None:
        self.request = request
        self.index = index
        self.token_ids: list[int] = []
        self.finish_reason: FinishReason | None = None
        self.stats: SpeculationStats | None = None
        self.cached_tokens = 0
        self._detokenizer = detokenizer
        self._stops = StopMatcher(stops) if stops else None

    async def stream(self, backend: Backend) -> AsyncGenerator[Piece, None]:
        """One piece per delta. Leaving early aborts the work, and so does a stop string.

        Raises GenerationError or UnavailableError when the verifier gives up.
        """
        async with aclosing(backend.generate(self.request)) as deltas:
            async for delta in deltas:
                piece = self.take(delta)
                yield piece
                if piece.finish_reason is not None:
                    return
        raise GenerationError("the generation ended without a final event")

    def take(self, delta: TokenDelta) -> Piece:
        _raise_failure(delta)
        self.stats = delta.stats or self.stats
        self.cached_tokens = delta.cached_tokens
        text = self._take_tokens(delta)
        if self.finish_reason is None and delta.finish_reason is not None:
            text += self._flush()
            self.finish_reason = self.finish_reason or delta.finish_reason
        return Piece(self.index, text, self.finish_reason)

    def _take_tokens(self, delta: TokenDelta) -> str:
        token_ids = delta.token_ids
        visible = token_ids[: len(token_ids) - self._ends_with_stop_token(delta)]
        if self._stops is None:
            text = self._detokenizer.push(visible)
        else:
            # Token by token, to know the one that completes a stop string.
            text = ""
            for count, token_id in enumerate(visible, start=1):
                text += self._match(self._detokenizer.push((token_id,)))
                if self.finish_reason is not None:
                    token_ids = token_ids[:count]
                    break
        self.token_ids.extend(token_ids)
        return text

    def _ends_with_stop_token(self, delta: TokenDelta) -> bool:
        if delta.finish_reason is not FinishReason.STOP or not delta.token_ids:
            return False
        return delta.token_ids[-1] in self.request.params.stop_token_ids

    def _flush(self) -> str:
        text = self._detokenizer.flush()
        if self._stops is None:
            return text
        text = self._match(text)
        return text if self.finish_reason is not None else text + self._stops.flush()

    def _match(self, text: str) -> str:
        assert self._stops is not None
        settled = self._stops.push(text)
        if settled.stopped:
            self.finish_reason = FinishReason.STOP
        return settled.text


def _raise_failure(delta: TokenDelta) -> None:
    if delta.finish_reason is FinishReason.ERROR:
        raise GenerationError(delta.error)
    if delta.finish_reason is FinishReason.ABORT:
        raise UnavailableError("the server stopped this generation; try again")
