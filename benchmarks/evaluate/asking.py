"""Asks questions in all their turns of all methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tqdm import tqdm

from benchmarks.answers import Answer
from benchmarks.asked import Asked, ask_turn
from benchmarks.evaluate.bench import Bench
from benchmarks.evaluate.estimate import estimate_s
from benchmarks.evaluate.log import TrialLog
from benchmarks.evaluate.trials import Job, Trial
from benchmarks.machine import commit
from benchmarks.rotation import rotated
from benchmarks.speed.methods import PLAIN


def ask_missing(jobs: Sequence[Job], bench: Bench, log: TrialLog) -> None:
    """Asks what is not in the log, and keeps it there."""
    left = [job for job in jobs if job.place not in log]
    minutes = estimate_s(left, bench) / 60
    print(
        f"This takes {minutes:.1f} min at most ({len(left)} of {len(jobs)} questions are left).", flush=True
    )
    total, to_do = (sum(job.num_turns for job in each) * len(bench.methods) for each in (jobs, left))
    with tqdm(total=total, initial=total - to_do, unit="answer", smoothing=0.05) as progress:
        for job in left:
            log.add(ask(job, bench, progress.update))


def ask(job: Job, bench: Bench, tick: Callable[[], object]) -> list[Trial]:
    """A trial of every method. `tick` is called after every answer.

    In each turn the methods take turns at being first. What a later turn looks back on is plain decoding's
    answer, so that all methods read the same.
    """
    names = [method.name for method in bench.methods]
    asked: list[Asked] = []
    answers: dict[str, list[Answer]] = {name: [] for name in names}
    for turn in range(job.num_turns):
        said = [answer.text for answer in answers[PLAIN]]
        asked.append(ask_turn(job.place.task, job.question, said, bench.served, bench.options.max_tokens))
        for name in rotated(names, job.index + turn):
            answers[name].append(bench.answer(name, asked[-1].prompt, job.sampling))
            tick()
    comparer = bench.comparer(job.place.temperature, job.index)
    measured_by = commit()
    return [
        Trial.of(job.place, name, each, comparer.compare(asked, each, answers[PLAIN]), measured_by)
        for name, each in answers.items()
    ]
