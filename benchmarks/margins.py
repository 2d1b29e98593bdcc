"""How sure the target was of a token: the distance between its two best candidates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.answers import Prompt
from serving.engine.batch import Packer
from serving.engine.engine import Engine
from serving.engine.scheduler import Prefill, StepPlan
from serving.engine.sequence import Sequence
from serving.spec.noise import gumbel, noise_key
from serving.types import GenerationRequest, SamplingParams


class MarginProbe:
    """Runs an idle engine's own network over given tokens, in chunks as the engine prefills."""

    def __init__(self, engine: Engine) -> None:
        scheduler = engine.scheduler
        self._runner, self._blocks = engine.runner, scheduler.blocks
        self._max_rows = scheduler.max_num_batched_tokens
        max_blocks = self._blocks.blocks_for(scheduler.max_model_len)
        self._packer = Packer(self._max_rows, 1, max_blocks, self._blocks.block_size)

    def margin(self, prefix: Prompt, temperature: float = 0.0, seed: int = 0) -> float:
        """How far ahead the best token after `prefix` is of the second best.

        In logits at temperature 0; else in what decides a draw: logits / temperature + noise of the seed.
        """
        logits = self._logits(prefix)
        if temperature == 0.0:
            return _lead(logits)
        noise = gumbel(np.arange(len(logits)), noise_key(seed, 0, len(prefix)))
        return _lead(logits / temperature + noise)

    def _logits(self, prefix: Prompt) -> NDArray[np.float64]:
        """[vocab], for the token after `prefix`."""
        params = SamplingParams(max_tokens=1, temperature=0.0)
        sequence = Sequence.create(0, GenerationRequest("margin", prefix, params))
        held = self._blocks.grow(sequence.block_table, len(prefix))
        assert held, "the engine is idle"
        for start in range(0, len(prefix), self._max_rows):
            chunk = Prefill(sequence, start, min(self._max_rows, len(prefix) - start))
            logits = self._runner.forward(self._packer.pack(StepPlan((), (chunk,), ()), []))
        self._blocks.release(sequence.block_table)
        return np.asarray(logits[0].tolist())


def _lead(scores: NDArray[np.float64]) -> float:
    second, best = np.partition(scores, -2)[-2:]
    return float(best - second)
