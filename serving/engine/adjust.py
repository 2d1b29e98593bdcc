"""What a request does to its logits before one is chosen: bias, penalties, and no stop token too early.

Penalties depend on what was said before. In a draft tree that is the committed text and the path from the
root to the node, so that a node's logits are changed exactly as plain decoding would change them there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from serving.types import GenerationRequest, SamplingParams

Floats = NDArray[np.float32]


class Adjuster:
    """Changes the logits of one request: logit_bias, then repetition, frequency and presence penalty, then
    minus infinity for stop tokens before min_tokens.

    It counts tokens as the walk visits them, one path and never back: what it has counted after a step is
    what the step commits, but for the last token.
    """

    @classmethod
    def of(cls, request: GenerationRequest) -> Adjuster | None:
        """None where the request changes nothing: such rows must cost nothing."""
        params = request.params
        held_back = params.min_tokens > 0 and bool(params.stop_token_ids)
        return cls(request) if params.logit_bias or held_back or _penalises(params) else None

    def __init__(self, request: GenerationRequest) -> None:
        params = self._params = request.params
        self._num_prompt = len(request.prompt_ids)
        self._bias_ids = np.array([token for token, _ in params.logit_bias], np.int64)
        self._bias = np.array([bias for _, bias in params.logit_bias], np.float32)
        self._stop_ids = np.array(sorted(params.stop_token_ids), np.int64)
        self._prompt = np.unique(np.array(request.prompt_ids, np.int64))
        self._said = _Counts()
        self.num_tokens = self._num_prompt

    @property
    def num_output(self) -> int:
        return self.num_tokens - self._num_prompt

    def catch_up(self, token_ids: Sequence[int], path: Iterable[int] = ()) -> None:
        """Count what is new of the request's tokens so far, prompt included, and then a path behind them."""
        self._extend(token_ids[self.num_tokens :])
        self._extend(path)

    def adjusted(self, row: Floats) -> Floats:
        """The logits [vocab] of the next token, changed; a copy."""
        row = row.copy()
        row[self._bias_ids] += self._bias
        if _penalises(self._params):
            self._penalise(row)
        if self.num_output < self._params.min_tokens:
            row[self._stop_ids] = -np.inf
        return row

    def _extend(self, token_ids: Iterable[int]) -> None:
        for token in token_ids:
            self._said.add(token)
            self.num_tokens += 1

    def _penalise(self, row: Floats) -> None:
        params, said = self._params, self._said
        if params.repetition_penalty != 1.0:
            seen = np.union1d(self._prompt, said.token_ids)
            logits, penalty = row[seen], np.float32(params.repetition_penalty)
            row[seen] = np.where(logits > 0, logits / penalty, logits * penalty)
        row[said.token_ids] -= np.float32(params.frequency_penalty) * said.counts
        row[said.token_ids] -= np.float32(params.presence_penalty)


def _penalises(params: SamplingParams) -> bool:
    return (params.repetition_penalty, params.frequency_penalty, params.presence_penalty) != (1.0, 0.0, 0.0)


class _Counts:
    """How often each token was said, in arrays that grow: adding one takes the same time at any length."""

    def __init__(self) -> None:
        self._place: dict[int, int] = {}
        self._token_ids = np.empty(16, np.int64)
        self._counts = np.zeros(16, np.float32)

    @property
    def token_ids(self) -> NDArray[np.int64]:
        """[distinct tokens], in the order in which they were first said."""
        return self._token_ids[: len(self._place)]

    @property
    def counts(self) -> Floats:
        """[distinct tokens]"""
        return self._counts[: len(self._place)]

    def add(self, token: int) -> None:
        place = self._place.setdefault(token, len(self._place))
        if place == len(self._counts):
            self._token_ids = np.concatenate([self._token_ids, np.empty_like(self._token_ids)])
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._token_ids[place] = token
        self._counts[place] += 1
