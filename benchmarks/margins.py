"""How sure the target was of a token: the distance between its two best logits."""

from __future__ import annotations

from benchmarks.answers import Prompt
from serving.engine.batch import Packer
from serving.engine.engine import Engine
from serving.engine.scheduler import Prefill, StepPlan
from serving.engine.sequence import Sequence
from serving.types import GenerationRequest, SamplingParams


class MarginProbe:
    """Runs an idle engine's own network over given tokens, in chunks as the engine prefills."""

    def __init__(self, engine: Engine) -> None:
        scheduler = engine.scheduler
        self._runner, self._blocks = engine.runner, scheduler.blocks
        self._max_rows = scheduler.max_num_batched_tokens
        max_blocks = self._blocks.blocks_for(scheduler.max_model_len)
        self._packer = Packer(self._max_rows, 1, max_blocks, self._blocks.block_size)

    def margin(self, prefix: Prompt) -> float:
        """Best logit minus the second best for the token after `prefix`."""
        params = SamplingParams(max_tokens=1, temperature=0.0)
        sequence = Sequence.create(0, GenerationRequest("margin", prefix, params))
        held = self._blocks.grow(sequence.block_table, len(prefix))
        assert held, "the engine is idle"
        for start in range(0, len(prefix), self._max_rows):
            chunk = Prefill(sequence, start, min(self._max_rows, len(prefix) - start))
            logits = self._runner.forward(self._packer.pack(StepPlan((), (chunk,), ()), []))
        self._blocks.release(sequence.block_table)
        best, second = logits[0].topk(2).values.tolist()
        return float(best - second)
