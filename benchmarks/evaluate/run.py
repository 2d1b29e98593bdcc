"""`python -m benchmarks evaluate`, from the options to the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.evaluate.log import TrialLog
from benchmarks.evaluate.methods import LEGEND, chosen
from benchmarks.evaluate.options import Options
from benchmarks.evaluate.rows import rows
from benchmarks.evaluate.tables import print_tables
from benchmarks.evaluate.trials import Job, Place
from benchmarks.questions import Question, read_questions
from benchmarks.report import write_report
from benchmarks.waiting import wait_as_the_service_does


def run(options: Options, arguments: list[str]) -> None:
    """Raises BenchmarkError for wrong input, and what loading a model raises."""
    questions = {task: read_questions(options.questions, task)[: options.limit] for task in options.tasks}
    methods = chosen(options)
    wait_as_the_service_does(options.settings | methods[0].settings)
    from benchmarks.evaluate.asking import ask_missing  # torch reads the environment once
    from benchmarks.evaluate.bench import Bench

    bench = Bench.open(options, methods)
    names = [method.name for method in methods]
    settings = bench.settings()
    log = TrialLog(options.out.with_suffix(".rows.jsonl"), settings, names)
    jobs = _jobs(questions, options.temperature)
    ask_missing(jobs, bench, log)
    places = [job.place for job in jobs]
    made = rows(places, names, log)
    print_tables(made)
    commits = sorted({str(trial.commit) for name in names for trial in log.of(places, name)})
    described = {**options.as_json(), **settings, "legend": {n: LEGEND[n] for n in names}, "commits": commits}
    write_report(options.out, arguments, described, made)


def _jobs(questions: Mapping[str, Sequence[Question]], temperatures: Sequence[float]) -> list[Job]:
    """Every question, one temperature after the other."""
    return [
        Job(Place.of(task, question, temperature), question, index)
        for temperature in temperatures
        for task, each in questions.items()
        for index, question in enumerate(each)
    ]
