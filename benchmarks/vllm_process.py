"""vLLM's `LLM` class in a process of its own (see `Child`), run by the Python of vLLM's environment.

The first line says what to load. Then `{"prompts": [ids, ...], "max_tokens": n}` is answered by the new
tokens of each and the seconds that they took together. Imports vLLM and the standard library alone.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from benchmarks.child import serve_lines


class Generator:
    """Greedy. speculative: vLLM's `speculative_config`."""

    def __init__(
        self,
        folder: str,
        dtype: str,
        eos_token_ids: list[int],
        max_model_len: int,
        max_num_seqs: int,
        speculative: dict[str, Any] | None,
    ) -> None:
        import vllm

        self._vllm: Any = vllm
        self._eos = eos_token_ids
        self._llm = self._vllm.LLM(
            model=folder,
            dtype=dtype,
            max_model_len=max_model_len,
            max_num_seqs=max_num_seqs,
            enable_prefix_caching=False,
            speculative_config=speculative,
            generation_config="vllm",  # the model's own defaults (a repetition penalty, say) do not count
        )
        self.version: str = vllm.__version__

    def run(self, prompts: list[list[int]], max_tokens: int) -> dict[str, Any]:
        params = self._vllm.SamplingParams(
            temperature=0.0, max_tokens=max_tokens, stop_token_ids=self._eos, detokenize=False
        )
        start = perf_counter()
        outputs = self._llm.generate([{"prompt_token_ids": p} for p in prompts], params, use_tqdm=False)
        seconds = perf_counter() - start
        return {"token_ids": [list(each.outputs[0].token_ids) for each in outputs], "seconds": seconds}


def main() -> None:
    generator: Generator | None = None

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        nonlocal generator
        if generator is not None:
            return generator.run(**question)
        generator = Generator(**question)
        return {"version": generator.version}

    serve_lines(answer)


if __name__ == "__main__":
    main()
