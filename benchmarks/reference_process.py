"""transformers' `generate` in a process of its own (see `Child`).

The first line says what to load. Then `{"prompts": [ids, ...], "max_tokens": n, "draft_tokens": m}` is
answered by the new tokens of each and when the first and the last of them came.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, cast

import torch
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.generation.streamers import BaseStreamer

from benchmarks.child import serve_lines


class Generator:
    """Greedy, with KV cache; several prompts are one padded batch.

    assistant: folder of a small model that drafts in assisted generation.
    """

    def __init__(
        self, folder: str, dtype: str, threads: int, eos_token_ids: list[int], assistant: str | None = None
    ) -> None:
        torch.set_num_threads(threads)
        self._eos = eos_token_ids
        self._model = _load(folder, dtype)
        self._assistant = None if assistant is None else _load(assistant, dtype)
        # As the model's own, or its defaults (a repetition penalty, say) would fill in what is not set.
        self._model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
            do_sample=False,
            use_cache=True,
            eos_token_id=eos_token_ids,
            pad_token_id=eos_token_ids[0] if eos_token_ids else 0,
        )

    def run(self, prompts: list[list[int]], max_tokens: int, draft_tokens: int | None = 0) -> dict[str, Any]:
        """draft_tokens: 0, plain; more, so many by prompt lookup; None, the assistant's, as many as it likes.

        Answers go up to and with the end of sequence; what the batch goes on for is padding.
        """
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        drafts: dict[str, Any] = {}
        if draft_tokens is None:
            drafts["assistant_model"] = self._assistant
        elif draft_tokens:
            drafts["prompt_lookup_num_tokens"] = draft_tokens
        clock = _Clock()
        output = self._model.generate(
            ids, attention_mask=mask, max_new_tokens=max_tokens, streamer=clock, **drafts
        )
        last_s = perf_counter() - clock.start
        token_ids = [self._ended(answer) for answer in output[:, longest:].tolist()]
        return {"token_ids": token_ids, "first_s": clock.first_s, "last_s": last_s}

    def _ended(self, answer: list[int]) -> list[int]:
        ends = [place for place, token in enumerate(answer) if token in self._eos]
        return answer[: ends[0] + 1] if ends else answer


def _load(folder: str, dtype: str) -> Any:
    return cast(Any, AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))).eval()


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
