"""Coupled drafting against plain trees and greedy decoding, over the same questions and seeds."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from benchmarks.answers import Answer, Prompt, total_stats
from benchmarks.asked import ask
from benchmarks.errors import BenchmarkError
from benchmarks.figure import Lines, draw
from benchmarks.in_process import InProcess
from benchmarks.parsing import given
from benchmarks.questions import read_questions
from benchmarks.report import ALL_TASKS, Row, write_report
from benchmarks.table import number, percent, render
from serving.config import ServeConfig
from serving.router.model import ServedModel
from serving.types import SpeculationStats

SECTION = "coupling"
GREEDY, UNCOUPLED, COUPLED = "greedy", "uncoupled", "coupled"
DEPTH = 8


@dataclass(frozen=True, slots=True)
class Trial:
    """One way to draft at one temperature. spread: of coupled drafts."""

    method: str
    temperature: float
    spread: float | None

    @property
    def settings(self) -> dict[str, Any]:
        coupled = {"speculation.coupled": self.spread is not None}
        return coupled if self.spread is None else coupled | {"speculation.coupling_spread": self.spread}

    @property
    def sampling(self) -> dict[str, Any]:
        return {"temperature": self.temperature}

    @property
    def name(self) -> str:
        return self.method if self.spread is None else f"{self.method} {self.spread:g}"


def run(options: argparse.Namespace, arguments: list[str]) -> None:
    """Raises BenchmarkError when an answer changes with the way it is drafted."""
    systems: dict[str, InProcess] = {}
    answers: dict[Trial, list[Answer]] = {}
    trials = _trials(options)
    for trial in trials:
        if trial.name not in systems:
            systems[trial.name] = InProcess(_config(options, trial.settings), options.max_tokens)
    prompts = _prompts(options, systems[GREEDY])
    for prompt in tqdm(prompts, unit="question"):
        for trial in trials:
            wave = systems[trial.name].run([prompt], options.num_speculative_tokens, trial.sampling)
            answers.setdefault(trial, []).extend(wave.answers)
    _check_same(answers)
    rows = _rows(answers)
    _print(rows)
    if options.json is not None:
        write_report(options.json, arguments, given(options), rows)
    if options.figure is not None:
        draw([_by_depth(rows, temperature) for temperature in options.temperatures], options.figure)


def _trials(options: argparse.Namespace) -> list[Trial]:
    sampled = [
        trial
        for temperature in options.temperatures
        for trial in (
            Trial(UNCOUPLED, temperature, None),
            *(Trial(COUPLED, temperature, spread) for spread in options.spreads),
        )
    ]
    return [Trial(GREEDY, 0.0, None), *sampled]


def _config(options: argparse.Namespace, settings: dict[str, Any]) -> ServeConfig:
    return ServeConfig.load(
        {
            "model": options.model,
            "dtype": options.dtype,
            "speculation.method": "eagle3",
            "speculation.head": options.head,
            "speculation.with_prompt_lookup": False,
            "speculation.num_speculative_tokens": options.num_speculative_tokens,
            "speculation.max_depth": DEPTH,
            "speculation.min_path_value": 0.0,
            **settings,
        }
    )


def _prompts(options: argparse.Namespace, system: InProcess) -> list[Prompt]:
    served = ServedModel(system.engine.card())
    prompts = []
    for task in options.tasks.split(","):
        questions = read_questions(options.questions, task)[: options.limit]
        prompts += [asked.prompt for asked in ask(task, questions, served, options.max_tokens)]
    return prompts


def _check_same(answers: dict[Trial, list[Answer]]) -> None:
    for trial, coupled in answers.items():
        if trial.method != COUPLED:
            continue
        uncoupled = answers[Trial(UNCOUPLED, trial.temperature, None)]
        differ = sum(a.token_ids != b.token_ids for a, b in zip(coupled, uncoupled, strict=True))
        if differ:
            raise BenchmarkError(f"{trial.name} at temperature {trial.temperature}: {differ} answers differ")


def _rows(answers: dict[Trial, list[Answer]]) -> list[Row]:
    totals = {trial: _counted(each) for trial, each in answers.items()}
    return [_row(trial, total, totals) for trial, total in totals.items()]


def _row(trial: Trial, total: SpeculationStats, totals: dict[Trial, SpeculationStats]) -> Row:
    recovered = None
    if trial.method == COUPLED:
        uncoupled = totals[Trial(UNCOUPLED, trial.temperature, None)].tau
        lost = totals[Trial(GREEDY, 0.0, None)].tau - uncoupled
        recovered = (total.tau - uncoupled) / lost if lost > 0 else None
    special = {
        "temperature": trial.temperature,
        "spread": trial.spread,
        "recovered": recovered,
        "steps": total.steps,
        "accepted_by_depth": [total.accepted_at(depth) / total.steps for depth in range(DEPTH)],
    }
    return Row(SECTION, ALL_TASKS, trial.name, 1, tau=total.tau, identical=1.0, special=special)


def _counted(answers: Sequence[Answer]) -> SpeculationStats:
    total = total_stats(answers)
    if not total.steps:
        raise BenchmarkError("the answers are too short to speculate in")
    return total


def _print(rows: Sequence[Row]) -> None:
    lines = [
        [
            f"{row.special['temperature']:g}  {row.method}",
            number(row.tau),
            percent(row.special["recovered"]),
            *(number(share) for share in row.special["accepted_by_depth"][:4]),
        ]
        for row in rows
    ]
    header = ["temperature", "tau", "recovered of greedy", "depth 1", "2", "3", "4"]
    title = "Committed tokens per step, and shares of steps that accept to each depth"
    print(render(title, header, lines))


def _by_depth(rows: Sequence[Row], temperature: float) -> Lines:
    series = {
        row.method: list(enumerate(row.special["accepted_by_depth"], start=1))
        for row in rows
        if row.special["temperature"] in (0.0, temperature)
    }
    return Lines(f"temperature {temperature:g}", "share of steps accepted to this depth", series)
