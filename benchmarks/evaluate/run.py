"""`python -m benchmarks evaluate`, from the options to the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tqdm import tqdm

from benchmarks.evaluate.log import TrialLog
from benchmarks.evaluate.methods import LEGEND, chosen
from benchmarks.evaluate.options import Options
from benchmarks.evaluate.rows import rows
from benchmarks.evaluate.tables import print_tables
from benchmarks.evaluate.trials import Place
from benchmarks.questions import Question, read_questions
from benchmarks.report import write_report
from benchmarks.waiting import wait_as_the_service_does


def run(options: Options, arguments: list[str]) -> None:
    """Raises BenchmarkError for wrong input, and what loading a model raises."""
    questions = {task: read_questions(options.questions, task)[: options.limit] for task in options.tasks}
    methods = chosen(options)
    wait_as_the_service_does(options.settings | methods[0].settings)
    from benchmarks.evaluate.asking import Job, ask  # torch reads the environment once
    from benchmarks.evaluate.bench import Bench
    from benchmarks.evaluate.estimate import estimate_s

    bench = Bench.open(options, methods)
    names = [method.name for method in methods]
    settings = bench.settings()
    log = TrialLog(options.out.with_suffix(".rows.jsonl"), settings, names)
    jobs = [Job(*each) for each in _asked(questions, options.temperature)]
    left = [job for job in jobs if job.place not in log]
    minutes = estimate_s(left, bench) / 60
    print(
        f"This takes {minutes:.1f} min at most ({len(left)} of {len(jobs)} questions are left).", flush=True
    )
    total, to_do = (sum(len(job.question.turns) for job in each) * len(names) for each in (jobs, left))
    with tqdm(total=total, initial=total - to_do, unit="answer", smoothing=0.05) as progress:
        for job in left:
            log.add(ask(job, bench, progress.update))
    places = [job.place for job in jobs]
    made = rows(places, names, log)
    print_tables(made)
    commits = sorted({str(trial.commit) for name in names for trial in log.of(places, name)})
    described = {**options.as_json(), **settings, "legend": {n: LEGEND[n] for n in names}, "commits": commits}
    write_report(options.out, arguments, described, made)


def _asked(
    questions: Mapping[str, Sequence[Question]], temperatures: Sequence[float]
) -> list[tuple[Place, Question, int]]:
    """Every question with its number in its task, one temperature after the other."""
    return [
        (Place.of(task, question, temperature), question, index)
        for temperature in temperatures
        for task, each in questions.items()
        for index, question in enumerate(each)
    ]
