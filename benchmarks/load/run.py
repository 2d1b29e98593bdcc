"""Throughput, or latency, against load for every way to choose m, on one engine, by turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from tqdm import tqdm

from benchmarks.asked import ask, mixed
from benchmarks.in_process import InProcess
from benchmarks.load.drive import Driver, Record, Work
from benchmarks.load.options import LoadOptions
from benchmarks.load.settle import settle
from benchmarks.load.tables import chart, print_tables
from benchmarks.load.urgent import by_priority, with_priorities
from benchmarks.parsing import pairs, written
from benchmarks.questions import read_questions
from benchmarks.report import ALL_TASKS, Row, write_report
from benchmarks.rotation import rotated
from benchmarks.stats import Estimate, paired_ratio
from serving.config import DraftBudget, ServeConfig
from serving.metrics import StepReport
from serving.router.model import ServedModel
from serving.types import SamplingParams

PLAIN, AUTO = "plain", "auto"
LEAST_REQUESTS = 8


@dataclass(frozen=True, slots=True)
class Load:
    """concurrency: clients that wait; or rate: requests a second."""

    name: str
    concurrency: int
    requests: int
    rate: float | None = None


def run(options: LoadOptions, arguments: list[str]) -> None:
    """Raises BenchmarkError for questions that do not fit, and when a request fails."""
    config = ServeConfig.load(
        {
            "model": options.model,
            "dtype": options.dtype,
            "speculation.placement": "colocated",
            **pairs(options.set),
        }
    )
    system = InProcess(config, options.max_tokens)
    driver = Driver(system.engine)
    works = _works(options, ServedModel(system.engine.card()))
    loads = _loads(options)
    with tqdm(total=len(loads) * options.repeats * len(_budgets(options)), unit="run") as bar:
        rows = [row for load in loads for row in _measure(load, driver, works, options, bar.update)]
    if options.settle:
        driver.engine.choose_m(DraftBudget(mode="auto"))
        rows += settle(driver, works)
    print_tables(rows)
    if options.json is not None:
        write_report(options.json, arguments, written(asdict(options)), rows)
    if options.figure is not None:
        chart(rows, options.figure)


def _loads(options: LoadOptions) -> list[Load]:
    def requests(clients: int) -> int:
        return max(options.requests * clients, LEAST_REQUESTS)

    closed = [Load(f"{n} clients", n, requests(n)) for n in options.concurrency]
    return closed + [Load(f"{rate:g} requests/s", 0, requests(8), rate) for rate in options.rates]


def _works(options: LoadOptions, served: ServedModel) -> list[Work]:
    tasks = {
        task: ask(task, read_questions(options.questions, task)[: options.limit], served, options.max_tokens)
        for task in options.tasks
    }
    stop = frozenset(served.card.eos_token_ids)
    return [
        Work(
            asked.prompt,
            SamplingParams(options.max_tokens, options.temperature, seed=i, stop_token_ids=stop),
        )
        for i, asked in enumerate(mixed(tasks, sum(map(len, tasks.values()))))
    ]


def _budgets(options: LoadOptions) -> dict[str, DraftBudget]:
    fixed = {
        f"m = {m}": DraftBudget(mode="fixed", num_speculative_tokens=m, min_path_value=0.0)
        for m in options.fixed
    }
    floors = options.floors if options.urgent is not None else ()
    latency = {
        f"latency, {floor:g} left": DraftBudget(mode="latency", min_throughput=floor) for floor in floors
    }
    return {PLAIN: DraftBudget(mode="off"), **fixed, AUTO: DraftBudget(mode="auto"), **latency}


def _measure(
    load: Load, driver: Driver, works: Sequence[Work], options: LoadOptions, done: Callable[[], object]
) -> list[Row]:
    budgets = _budgets(options)
    records: dict[str, list[Record]] = {name: [] for name in budgets}
    sent: list[list[Work]] = []
    for repeat in range(options.repeats):
        asked = [works[(repeat * load.requests + i) % len(works)] for i in range(load.requests)]
        sent.append(with_priorities(asked, options.urgent, repeat))
        for name in rotated(list(budgets), repeat):
            driver.engine.choose_m(budgets[name])
            if load.rate is None:
                record = driver.closed(sent[-1], load.concurrency)
            else:
                record = driver.open(sent[-1], load.rate, seed=repeat)
            records[name].append(record)
            done()
    rows = [_row(load, name, records) for name in records]
    if options.urgent is not None:
        for row in rows:
            mine, auto = records[row.method], records[AUTO]
            against = {**by_priority(mine, auto, sent), "all_ratio": _ratio(load, mine, auto)._asdict()}
            row.special["against_auto"] = against
    return rows


def _row(load: Load, name: str, records: Mapping[str, Sequence[Record]]) -> Row:
    mine, plain = records[name], records[PLAIN]
    steps = [step for record in mine for step in record.steps if step.decoding]
    differ = sum(
        a != b for x, y in zip(mine, plain, strict=True) for a, b in zip(x.outputs, y.outputs, strict=True)
    )
    special = {
        "load": load.name,
        "rate": load.rate,
        "ratio_to_plain": _ratio(load, mine, plain)._asdict(),
        "latency_s": median(median(record.latencies_s) for record in mine),
        "m": _mean([step.draft_tokens / step.decoding for step in steps]),
        "share_at_0": _mean([float(not step.draft_tokens) for step in steps]),
        "step_time_error": _time_error(steps),
        "tokens_error": _tokens_error(steps),
        "choosing_share": _choosing_share(steps),
        "differing_answers": differ,
    }
    if name == AUTO:
        special["ratio_to_best"] = _against_best(load, records)
    total = sum(len(record.outputs) for record in mine)
    return Row(
        "load",
        ALL_TASKS,
        name,
        load.concurrency,
        tokens_per_s=median(record.tokens_per_s for record in mine),
        speedup_vs_plain=_ratio(load, mine, plain).value,
        identical=1 - differ / total,
        special=special,
    )


def _ratio(load: Load, mine: Sequence[Record], others: Sequence[Record]) -> Estimate:
    return paired_ratio(_speeds(load, mine), _speeds(load, others))


def _speeds(load: Load, records: Sequence[Record]) -> list[float]:
    """Tokens per second where clients wait for their answers. Arrivals that do not wait decide how many there
    are to say: then, answers per second that a request waits."""
    if load.rate is None:
        return [record.tokens_per_s for record in records]
    return [1 / median(record.latencies_s) for record in records]


def _against_best(load: Load, records: Mapping[str, Sequence[Record]]) -> dict[str, object]:
    """The best of the others, chosen on every second repeat, is compared on the rest: what was chosen for its
    luck has to do without."""
    others = [name for name in records if name == PLAIN or name.startswith("m = ")]
    best = max(others, key=lambda name: median(_speeds(load, records[name][::2])))
    rest = 1 if len(records[AUTO]) > 1 else 0
    return {"best": best, **_ratio(load, records[AUTO][rest::2], records[best][rest::2])._asdict()}


def _time_error(steps: Sequence[StepReport]) -> float | None:
    """Median of actual / predicted seconds, less 1."""
    ratios = [step.step_seconds / step.predicted_seconds for step in steps if step.predicted_seconds]
    return median(ratios) - 1 if ratios else None


def _tokens_error(steps: Sequence[StepReport]) -> float | None:
    """All tokens that were committed / all that were predicted, less 1."""
    predicted = [step for step in steps if step.predicted_tokens]
    if not predicted:
        return None
    return sum(s.committed_tokens for s in predicted) / sum(s.predicted_tokens or 0 for s in predicted) - 1


def _choosing_share(steps: Sequence[StepReport]) -> float:
    """Of the time of steps, what choosing m takes."""
    total = sum(sum(step.phase_seconds.values()) for step in steps)
    return sum(step.phase_seconds["choose"] for step in steps) / total if total else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)
