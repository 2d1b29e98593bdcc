"""How long it will take, from a short answer of every method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.asked import ask_turn
from benchmarks.evaluate.bench import Bench
from benchmarks.evaluate.trials import Job

WARM_UP_TOKENS = 24


class _Pace(NamedTuple):
    """Seconds per token of a prompt, and per token of an answer."""

    prompt: float
    answer: float


def estimate_s(jobs: Sequence[Job], bench: Bench) -> float:
    """Seconds for answers of full length: many end before. Each method answers the first job in short."""
    if not jobs:
        return 0.0
    paces = [_pace(method.name, jobs[0], bench) for method in bench.methods]
    return sum(_job_s(job, paces, bench) for job in jobs)


def _pace(method: str, job: Job, bench: Bench) -> _Pace:
    asked = ask_turn(job.place.task, job.question, (), bench.served, bench.options.max_tokens)
    tokens = min(WARM_UP_TOKENS, bench.options.max_tokens)
    for _ in range(2):  # the first pays for buffers
        answer = bench.answer(method, asked.prompt, {"temperature": 0.0, "max_tokens": tokens})
    spent = answer.last_s - answer.first_s
    return _Pace(answer.first_s / len(asked.prompt), spent / max(1, answer.num_tokens - 1))


def _job_s(job: Job, paces: list[_Pace], bench: Bench) -> float:
    """Later turns read the answers before them as well."""
    most = bench.options.max_tokens
    first = ask_turn(job.place.task, job.question, (), bench.served, most)
    seconds = 0.0
    for turn in range(job.num_turns):
        read = (turn + 1) * len(first.prompt) + turn * most
        seconds += sum(read * pace.prompt + most * pace.answer for pace in paces)
    return seconds
