"""vLLM on the same prompts, from an environment of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.answers import Answer, Prompt, Wave
from benchmarks.child import Child, ChildOwner
from serving.router.tokenizer import Tokenizer

KV_CACHE_GIB = "1"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the process is to load. speculative: vLLM's `speculative_config`."""

    folder: str
    dtype: str
    eos_token_ids: tuple[int, ...]
    max_model_len: int
    max_num_seqs: int
    speculative: dict[str, Any] | None = None

    def with_eagle3(self, head: Path, draft_tokens: int) -> Loaded:
        """draft_tokens: length of the chain that is drafted in a step."""
        how = {"method": "eagle3", "model": str(head), "num_speculative_tokens": draft_tokens}
        return replace(self, speculative=how)


class Vllm(ChildOwner):
    """A System, and a context manager that ends its process.

    Raises BenchmarkError, with vLLM's last words, when it does not start.
    """

    def __init__(
        self, python: str, loaded: Loaded, tokenizer: Tokenizer, max_tokens: int, binding: str
    ) -> None:
        """binding: vLLM's own setting of the cores that compute."""
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self.binding = binding
        super().__init__(Child("benchmarks.vllm_process", _environment(binding), python))
        with self._starting():
            self.version: str = self._child.ask(asdict(loaded))["version"]

    def run(self, prompts: Sequence[Prompt], num_speculative_tokens: int | None) -> Wave:
        """How it drafts was said when it was loaded. `LLM.generate` hands out all answers at the end."""
        made = self._child.ask({"prompts": prompts, "max_tokens": self._max_tokens})
        times = made["seconds"], made["seconds"]
        answers = (
            Answer(self._tokenizer.decode(ids), tuple(ids), len(ids), *times) for ids in made["token_ids"]
        )
        return Wave(tuple(answers), None)


def bindings() -> tuple[str, str]:
    """All cores compute, as in the other systems, or vLLM keeps one of them for its own process."""
    return ",".join(map(str, sorted(os.sched_getaffinity(0)))), "auto"


def _environment(binding: str) -> dict[str, str]:
    ours = ("PYTHONPATH", "OMP_NUM_THREADS", "OMP_WAIT_POLICY")
    return {name: value for name, value in os.environ.items() if name not in ours} | {
        "VLLM_CPU_OMP_THREADS_BIND": binding,
        "VLLM_CPU_KVCACHE_SPACE": KV_CACHE_GIB,
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
