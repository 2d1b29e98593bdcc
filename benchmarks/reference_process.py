"""transformers' `generate` in a process of its own (see `Child`).

The first line says what to load. Then `{"prompt": ids, "max_tokens": n}` is answered by the new tokens and
when the first and the last of them came.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, cast

import torch
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.generation.streamers import BaseStreamer

from benchmarks.child import serve_lines


class Generator:
    """Greedy, with KV cache, one prompt at a time."""

    def __init__(self, folder: str, dtype: str, threads: int, eos_token_ids: list[int]) -> None:
        torch.set_num_threads(threads)
        self._model = cast(Any, AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)))
        self._model.eval()
        # As the model's own, or its defaults (a repetition penalty, say) would fill in what is not set.
        self._model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
            do_sample=False,
            use_cache=True,
            eos_token_id=eos_token_ids,
            pad_token_id=eos_token_ids[0] if eos_token_ids else 0,
        )

    def run(self, prompt: list[int], max_tokens: int) -> dict[str, Any]:
        ids = torch.tensor([prompt])
        clock = _Clock()
        output = self._model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_tokens, streamer=clock
        )
        last_s = perf_counter() - clock.start
        return {"token_ids": output[0, len(prompt) :].tolist(), "first_s": clock.first_s, "last_s": last_s}


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


def main() -> None:
    generator: Generator | None = None

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        nonlocal generator
        if generator is not None:
            return generator.run(**question)
        generator = Generator(**question)
        return {}

    serve_lines(answer)


if __name__ == "__main__":
    main()
