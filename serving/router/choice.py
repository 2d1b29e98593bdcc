"""One choice of a request: its tokens become text, and end where a stop string says so."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from itertools import zip_longest
from typing import NamedTuple

from serving.errors import GenerationError, UnavailableError
from serving.router.backend import TokenSource
from serving.router.detokenizer import Detokenizer
from serving.router.stops import StopMatcher
from serving.types import FinishReason, GenerationRequest, SpeculationStats, TokenDelta, TokenLogprobs


class ToldToken(NamedTuple):
    """A token with its log-probabilities: None for the first of a prompt. `offset`: where its text begins in
    the choice's, in characters."""

    token_id: int
    offset: int
    logprobs: TokenLogprobs | None


class Piece(NamedTuple):
    """New text of one choice; possibly none. `finish_reason` is set on the last.

    tokens: those that are new, where log-probabilities are asked for; some of their text may come later.
    """

    choice: int
    text: str
    finish_reason: FinishReason | None
    tokens: tuple[ToldToken, ...] = ()


class Choice:
    """`token_ids` holds every token that counts: all received, up to the one that completed a stop string.

    echo: the prompt's text, which begins the choice's. prompt_only: it ends there, too, and the token that
    the verifier adds counts for nothing.
    `stats` are the latest that the verifier sent: after a stop string they may include later steps.
    `cached_tokens` of the prompt were in its prefix cache.
    """

    def __init__(
        self,
        request: GenerationRequest,
        index: int,
        detokenizer: Detokenizer,
        stops: Sequence[str],
        *,
        echo: str | None = None,
        prompt_only: bool = False,
    ) -> None:
        self.request = request
        self.index = index
        self.token_ids: list[int] = []
        self.finish_reason: FinishReason | None = None
        self.stats: SpeculationStats | None = None
        self.cached_tokens = 0
        self._detokenizer = detokenizer
        self._echo, self._prompt_only = echo, prompt_only
        self._tells = request.params.logprobs is not None
        self._told: list[ToldToken] = []
        self._length = 0  # characters that the detokenizer has settled
        self._stops = StopMatcher(stops) if stops else None

    async def stream(self, source: TokenSource) -> AsyncGenerator[Piece, None]:
        """One piece per delta. Leaving early aborts the work, and so does a stop string.

        Raises GenerationError or UnavailableError when the verifier gives up.
        """
        async with aclosing(source.generate(self.request)) as deltas:
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
        text = "" if self._echo is None else self._read_prompt(self._echo, delta)
        if self._prompt_only:
            self.finish_reason = FinishReason.LENGTH
        else:
            text += self._take_tokens(delta)
        if self.finish_reason is None and delta.finish_reason is not None:
            text += self._flush()
            self.finish_reason = self.finish_reason or delta.finish_reason
        told, self._told = tuple(self._told), []
        return Piece(self.index, text, self.finish_reason, told)

    def _read_prompt(self, text: str, delta: TokenDelta) -> str:
        """`text`. The prompt's tokens are read so that the first one behind them keeps a leading space."""
        self._echo = None
        if self._tells:
            for token_id, logprobs in zip_longest(self.request.prompt_ids, (None, *delta.prompt_logprobs)):
                self._read(token_id, logprobs)
                self._length = min(self._length, len(text))  # tokens need not spell what the client wrote
        else:
            self._detokenizer.push(self.request.prompt_ids)
        self._detokenizer.flush()
        self._length = len(text)
        return text

    def _take_tokens(self, delta: TokenDelta) -> str:
        token_ids = delta.token_ids
        visible = len(token_ids) - self._ends_with_stop_token(delta)
        if self._stops is None and not self._tells:
            self.token_ids.extend(token_ids)
            return self._detokenizer.push(token_ids[:visible])
        # Token by token, to know where each begins and the one that completes a stop string.
        text = ""
        for place, token_id in enumerate(token_ids):
            logprobs = delta.logprobs[place] if self._tells else None
            read = self._read(token_id, logprobs, silent=place >= visible)
            # As stop tokens do, stop strings wait for min_tokens; they begin behind those, too.
            text += read if len(self.token_ids) < self.request.params.min_tokens else self._match(read)
            self.token_ids.append(token_id)
            if self.finish_reason is not None:
                break
        return text

    def _read(self, token_id: int, logprobs: TokenLogprobs | None, *, silent: bool = False) -> str:
        """The text that the token settles, and a note of it. A stop token is told of, but says nothing."""
        if self._tells:
            self._told.append(ToldToken(token_id, self._length, logprobs))
        text = "" if silent else self._detokenizer.push((token_id,))
        self._length += len(text)
        return text

    def _ends_with_stop_token(self, delta: TokenDelta) -> bool:
        if delta.finish_reason is not FinishReason.STOP or not delta.token_ids:
            return False
        return delta.token_ids[-1] in self.request.params.stop_token_ids

    def _flush(self) -> str:
        text = self._match(self._detokenizer.flush())
        if self._stops is None or self.finish_reason is not None:
            return text
        return text + self._stops.flush()

    def _match(self, text: str) -> str:
        if self._stops is None:
            return text
        settled = self._stops.push(text)
        if settled.stopped:
            self.finish_reason = FinishReason.STOP
        return settled.text


def _raise_failure(delta: TokenDelta) -> None:
    if delta.finish_reason is FinishReason.ERROR:
        raise GenerationError(delta.error)
    if delta.finish_reason is FinishReason.ABORT:
        raise UnavailableError("the server stopped this generation; try again")
