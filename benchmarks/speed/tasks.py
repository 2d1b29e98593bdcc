"""Sections `tasks` and `transformers`: one request at a time, every method in turn on every question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.answers import Answer, Method, total_stats
from benchmarks.asked import Asked
from benchmarks.identity import Comparer, Outcome
from benchmarks.report import Row
from benchmarks.rotation import rotated
from benchmarks.stats import Compared, compared

SECTION = "tasks"


@dataclass(frozen=True, slots=True)
class Trials:
    """answers[method][question][repeat] to `asked[question]`, and how they compare with plain's."""

    asked: list[Asked]
    answers: Mapping[str, list[list[Answer]]]
    outcomes: Mapping[str, Outcome]

    def joined(self, other: Trials) -> Trials:
        return Trials(
            self.asked + other.asked,
            {method: answers + other.answers[method] for method, answers in self.answers.items()},
            {method: outcome + other.outcomes[method] for method, outcome in self.outcomes.items()},
        )


def ask_task(
    asked: list[Asked],
    methods: Sequence[Method],
    repeats: int,
    comparer: Comparer,
    tick: Callable[[], object],
) -> Trials:
    """`tick` is called after every answer."""
    answers: dict[str, list[list[Answer]]] = {method.name: [[] for _ in asked] for method in methods}
    for repeat in range(repeats):
        for index, question in enumerate(asked):
            for method in rotated(methods, index + repeat):
                answers[method.name][index] += method.run([question.prompt]).answers
                tick()
    return Trials(asked, answers, _outcomes(asked, answers, methods[0].name, comparer))


def _outcomes(
    asked: list[Asked], answers: Mapping[str, list[list[Answer]]], plain: str, comparer: Comparer
) -> dict[str, Outcome]:
    """Every answer with plain's first: plain's own repeats too."""
    reference = [repeats[0] for repeats in answers[plain]]
    outcomes = {}
    for method, of_method in answers.items():
        by_repeat = zip(*of_method, strict=True)
        each = [comparer.compare(asked, of_repeat, reference) for of_repeat in by_repeat]
        outcomes[method] = sum(each[1:], each[0])
    return outcomes


def task_rows(task: str, trials: Trials, methods: Sequence[Method]) -> list[Row]:
    """One row per method."""
    return [_row(task, trials, method) for method in methods]


def _row(task: str, trials: Trials, method: Method) -> Row:
    answers, baseline = trials.answers[method.name], trials.answers[method.baseline]
    whole = _compared(answers, baseline, lambda answer: answer.tokens_per_s)
    decode = _compared(answers, baseline, lambda answer: answer.decode_tokens_per_s)
    flat = [answer for repeats in answers for answer in repeats]
    outcome = trials.outcomes[method.name]
    return Row(
        SECTION,
        task,
        method.name,
        concurrency=1,
        tokens_per_s=whole.rate,
        speedup_vs_plain=whole.ratio and whole.ratio.value,
        tau=tau(flat),
        identical=outcome.share,
        special={
            "speedup_interval": whole.ratio and list(whole.ratio[1:]),
            "decode_tokens_per_s": decode.rate,
            "decode_speedup_vs_plain": decode.ratio and decode.ratio.value,
            "decode_speedup_interval": decode.ratio and list(decode.ratio[1:]),
            "first_token_s": median(answer.first_s for answer in flat),
            "questions": len(answers),
            "tokens": sum(answer.num_tokens for answer in flat),
            **outcome.as_json(),
        },
    )


def _compared(
    answers: list[list[Answer]], baseline: list[list[Answer]], rate: Callable[[Answer], float | None]
) -> Compared:
    """Question by question: medians of their repeats."""
    return compared([_median(each, rate) for each in answers], [_median(each, rate) for each in baseline])


def _median(repeats: list[Answer], rate: Callable[[Answer], float | None]) -> float | None:
    rates = [value for answer in repeats if (value := rate(answer)) is not None]
    return median(rates) if rates else None


def tau(answers: Sequence[Answer]) -> float | None:
    """Over all decode steps of all answers; None where none were counted."""
    total = total_stats(answers)
    return total.tau if total.steps else None
