"""transformers' `generate`: what most people run first, and the yardstick for plain decoding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import torch
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.generation.streamers import BaseStreamer
from transformers.utils import logging

from benchmarks.answers import Answer, Prompt, Wave
from serving.router.tokenizer import Tokenizer
from serving.types import ModelCard


class Reference:
    """A System: greedy, with KV cache, one prompt at a time, in the torch threads that are set."""

    def __init__(self, folder: Path, card: ModelCard, dtype: str, max_tokens: int) -> None:
        self._tokenizer = Tokenizer(card.tokenizer_json)
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        self._model = cast(Any, AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)))
        self._model.eval()
        # Also as the model's own, or its defaults (a repetition penalty, say) would fill in what is not set.
        self._model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
            do_sample=False,
            use_cache=True,
            max_new_tokens=max_tokens,
            eos_token_id=list(card.eos_token_ids),
            pad_token_id=card.eos_token_ids[0] if card.eos_token_ids else 0,
        )

    def run(self, prompts: Sequence[Prompt], num_speculative_tokens: int | None) -> Wave:
        (prompt,) = prompts
        ids = torch.tensor([prompt])
        clock = _Clock()
        output = self._model.generate(ids, attention_mask=torch.ones_like(ids), streamer=clock)
        last_s = perf_counter() - clock.start
        made = tuple(output[0, len(prompt) :].tolist())
        return Wave((Answer(self._tokenizer.decode(made), made, len(made), clock.first_s, last_s),), None)


class _Clock(BaseStreamer):
    """`generate` hands over the prompt, then every token as it is made."""

    def __init__(self) -> None:
        self.start = perf_counter()
        self.first_s = 0.0
        self._calls = 0

    def put(self, value: torch.Tensor) -> None:
        self._calls += 1
        if self._calls == 2:
            self.first_s = perf_counter() - self.start

    def end(self) -> None:
        """Nothing to flush."""
