"""transformers' `generate`: what most people run first, and the yardstick for plain decoding."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from benchmarks.answers import Answer, Prompt, Wave
from benchmarks.child import Child, ChildOwner
from serving.router.tokenizer import Tokenizer

# How OpenMP's threads may wait for the next operation: as they do by themselves, which is to spin, or without
# taking the core. Which is faster depends on what else the machine does.
WAITING: tuple[dict[str, str], ...] = ({}, {"OMP_WAIT_POLICY": "passive"})
TRIAL_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the process is to load, and where it computes."""

    folder: str
    dtype: str
    threads: int
    eos_token_ids: tuple[int, ...]
    assistant: str | None = None


class Reference(ChildOwner):
    """A System, and a context manager that ends its process.

    Several prompts are one padded batch. Drafts are prompt lookup's or, where as many as it likes are asked
    for (None), the assistant's; of one prompt alone.
    """

    def __init__(
        self, loaded: Loaded, tokenizer: Tokenizer, max_tokens: int, environment: dict[str, str]
    ) -> None:
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        super().__init__(Child("benchmarks.reference_process", environment))
        with self._starting():
            self._child.ask(asdict(loaded))

    def run(self, prompts: Sequence[Prompt], num_speculative_tokens: int | None) -> Wave:
        return self._generate(prompts, self._max_tokens, num_speculative_tokens)

    def trial(self, prompt: Prompt) -> float:
        """Tokens per second of a short answer, the first one being for warming up."""
        self._generate([prompt], TRIAL_TOKENS, 0)
        return self._generate([prompt], TRIAL_TOKENS, 0).answers[0].tokens_per_s

    def _generate(self, prompts: Sequence[Prompt], max_tokens: int, draft_tokens: int | None) -> Wave:
        question = {"prompts": prompts, "max_tokens": max_tokens, "draft_tokens": draft_tokens}
        made = self._child.ask(question)
        times = made["first_s"], made["last_s"]
        answers = (
            Answer(self._tokenizer.decode(ids), tuple(ids), len(ids), *times) for ids in made["token_ids"]
        )
        return Wave(tuple(answers), None)


def open_fastest(
    loaded: Loaded,
    tokenizer: Tokenizer,
    max_tokens: int,
    trial: Prompt,
    environment: dict[str, str],
    resources: ExitStack,
) -> Reference:
    """The reference with whichever way of WAITING is faster here and now; `resources` ends it."""
    candidates = [
        resources.enter_context(Reference(loaded, tokenizer, max_tokens, environment | waiting))
        for waiting in WAITING
    ]
    return max(candidates, key=lambda candidate: candidate.trial(trial))
