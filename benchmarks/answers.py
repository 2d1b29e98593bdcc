"""What a system under test returns: timed answers, and a window of steady decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from serving.types import SpeculationStats

Prompt = tuple[int, ...]


class Snapshot(NamedTuple):
    """An engine's counters (`EngineStats` as a dictionary) at a time of `perf_counter`."""

    at: float
    counters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Window:
    """What an engine did between two moments. times: seconds by phase (see StepTimes)."""

    seconds: float
    steps: int
    committed_tokens: int
    times: dict[str, float]

    @classmethod
    def between(cls, start: Snapshot, end: Snapshot) -> Window:
        before, after = start.counters, end.counters
        return cls(
            seconds=end.at - start.at,
            steps=after["steps"] - before["steps"],
            committed_tokens=_committed(end) - _committed(start),
            times={phase: after["times"][phase] - value for phase, value in before["times"].items()},
        )


def _committed(snapshot: Snapshot) -> int:
    return int(snapshot.counters["speculation"]["committed_tokens"])


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one prompt. Times are seconds since its wave was sent.

    token_ids is None where only text comes back. stats is None for a system that does not speculate.
    """

    text: str
    token_ids: tuple[int, ...] | None
    num_tokens: int
    first_s: float
    last_s: float
    stats: SpeculationStats | None = None

    @property
    def tokens_per_s(self) -> float:
        """Prefill included."""
        return self.num_tokens / self.last_s

    @property
    def decode_tokens_per_s(self) -> float | None:
        """From the first token to the last; None for a single token."""
        if self.num_tokens < 2:
            return None
        return (self.num_tokens - 1) / (self.last_s - self.first_s)


def total_stats(answers: Sequence[Answer]) -> SpeculationStats:
    """Over all decode steps of all answers."""
    total = SpeculationStats()
    for answer in answers:
        if answer.stats is not None:
            total.add(answer.stats)
    return total


@dataclass(frozen=True, slots=True)
class Wave:
    """Prompts that were sent together. window: from the last first token to the first end, while all of them
    decode; None where an answer ended before another began."""

    answers: tuple[Answer, ...]
    window: Window | None

    @property
    def seconds(self) -> float:
        return max(answer.last_s for answer in self.answers)

    @property
    def num_tokens(self) -> int:
        return sum(answer.num_tokens for answer in self.answers)

    @property
    def tokens_per_s(self) -> float:
        """Prefill, and the end where fewer are left, included."""
        return self.num_tokens / self.seconds


class System(Protocol):
    """Something that answers prompts: greedy, to the end of sequence or a fixed number of tokens."""

    def run(self, prompts: Sequence[Prompt], num_speculative_tokens: int | None) -> Wave:
        """All prompts at once; the wave ends with the last answer. `num_speculative_tokens` 0: plain."""
        ...


@dataclass(frozen=True, slots=True)
class Method:
    """A way to answer. baseline: the name of the method that is plain decoding by the same way.

    through: "engine" (in this process), "http", "transformers" or "vllm".
    """

    name: str
    system: System
    num_speculative_tokens: int | None
    baseline: str
    through: str

    def run(self, prompts: Sequence[Prompt]) -> Wave:
        return self.system.run(prompts, self.num_speculative_tokens)
