"""`python -m benchmarks pool`: when a drafter pool beats a colocated drafter, and what going there costs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from benchmarks.asked import ask
from benchmarks.load.drive import Driver, Record, Work
from benchmarks.parsing import given, pairs
from benchmarks.pool_stack import Pool, Spent, TimedChannel, pool
from benchmarks.questions import read_questions
from benchmarks.report import ALL_TASKS, Row, write_report
from benchmarks.rotation import rotated
from benchmarks.stats import Estimate, paired_ratio
from benchmarks.table import percent, render
from serving.config import DraftBudget, ServeConfig
from serving.drafting.base import DraftChannel
from serving.drafting.colocated import ColocatedChannel
from serving.engine.build import build_engine
from serving.replicas.drafters import build_drafter
from serving.router.model import ServedModel
from serving.types import SamplingParams

SECTION = "pool"
PLAIN, COLOCATED = "plain", "colocated"
TARGET, TARGET_CLIENTS = 0.10, 8
HEADER = (
    "way",
    "clients",
    "tokens/s",
    "/ colocated",
    "step ms",
    "forward",
    "waited for drafts",
    "hidden",
    "asking",
    "Ray calls",
    "way there and back",
)


@dataclass(frozen=True, slots=True)
class System:
    """channel: None where the drafter is colocated. budget: of m."""

    driver: Driver
    channel: TimedChannel | None
    budget: DraftBudget


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took, in seconds of its steps that decode. The record has the rest."""

    record: Record
    spent: Spent


def run(options: argparse.Namespace, arguments: list[str]) -> None:
    """Raises BenchmarkError when a request fails."""
    settings = {"model": options.model, "dtype": options.dtype, **pairs(options.set)}
    with ExitStack() as stack:
        drafters = stack.enter_context(pool(_config(settings, "pool", "off")))
        systems = _systems(settings, options.overlap, drafters)
        lease_s = drafters.lease_s()
        works = _works(options, systems[COLOCATED])
        rounds = len(options.clients) * options.repeats * len(systems)
        with tqdm(total=rounds, unit="run") as bar:
            rows = [
                row
                for n in options.clients
                for row in _measure(n, systems, works, options.repeats, bar.update)
            ]
    _print(options, rows, lease_s)
    if options.json is not None:
        write_report(options.json, arguments, {**given(options), "lease_s": lease_s}, rows)


def _config(settings: Mapping[str, Any], placement: str, overlap: str) -> ServeConfig:
    more = {"speculation.placement": placement, "speculation.overlap": overlap}
    return ServeConfig.load({**settings, **more, "engine.enable_prefix_caching": False})


def _systems(settings: Mapping[str, Any], overlaps: Sequence[str], drafters: Pool) -> dict[str, System]:
    config = _config(settings, COLOCATED, "off")
    colocated = _driver(config, ColocatedChannel(build_drafter(config)))
    systems = {
        PLAIN: System(colocated, None, DraftBudget(mode="off")),
        COLOCATED: System(colocated, None, config.speculation),
    }
    for overlap in overlaps:
        name, config = f"pool, overlap {overlap}", _config(settings, "pool", overlap)
        channel = drafters.channel(name)
        systems[name] = System(_driver(config, channel), channel, config.speculation)
    return systems


def _driver(config: ServeConfig, channel: DraftChannel) -> Driver:
    return Driver(build_engine(config, channel, "benchmark"))


def _works(options: argparse.Namespace, system: System) -> list[Work]:
    served = ServedModel(system.driver.engine.card())
    questions = read_questions(options.questions, options.task)
    prompts = [asked.prompt for asked in ask(options.task, questions, served, options.max_tokens)]
    stop = frozenset(served.card.eos_token_ids)
    params = SamplingParams(options.max_tokens, 0.0, stop_token_ids=stop)
    return [Work(prompt, params) for prompt in prompts]


def _measure(
    clients: int,
    systems: Mapping[str, System],
    works: Sequence[Work],
    repeats: int,
    done: Callable[[], object],
) -> list[Row]:
    """Every way by turns, with the same requests. The first repeat only warms up."""
    runs: dict[str, list[Run]] = {name: [] for name in systems}
    for repeat in range(repeats + 1):
        sent = [works[(repeat * clients + i) % len(works)] for i in range(2 * clients)]
        for name in rotated(list(systems), repeat):
            result = _run(systems[name], sent, clients)
            if repeat:
                runs[name].append(result)
                done()
    return [_row(clients, name, runs) for name in runs]


def _run(system: System, works: Sequence[Work], clients: int) -> Run:
    system.driver.engine.choose_m(system.budget)
    if system.channel is None:
        return Run(system.driver.closed(works, clients), Spent())
    system.channel.spent = Spent()
    return Run(system.driver.closed(works, clients), system.channel.spent)


def _row(clients: int, name: str, runs: Mapping[str, Sequence[Run]]) -> Row:
    mine, base = runs[name], runs[COLOCATED]
    steps = [step for run in mine for step in run.record.steps]
    differ = sum(
        a != b
        for x, y in zip(mine, runs[PLAIN], strict=True)
        for a, b in zip(x.record.outputs, y.record.outputs, strict=True)
    )
    decoding = sum(1 for step in steps if step.decoding)
    decoded = sum(step.decoding for step in steps)

    def mean(seconds: float) -> float:
        """Of a step that would have all sequences decode."""
        return seconds * clients / max(decoded, 1)

    phases = {phase: sum(step.phase_seconds[phase] for step in steps) for phase in steps[0].phase_seconds}
    submit, collect = (sum(getattr(run.spent, part) for run in mine) for part in ("submit", "collect"))
    hidden = sum(step.hidden_draft_s for step in steps)
    waited_more = max(collect - phases["draft"], 0.0)
    special = {
        "ratio_to_colocated": _ratio(mine, base)._asdict(),
        "m": sum(step.draft_tokens for step in steps) / max(decoded, 1),
        "decode_steps": decoding,
        "step_s": mean(sum(phases.values())),
        "forward_s": mean(phases["forward"]),
        "draft_waited_s": mean(phases["draft"]),
        "draft_hidden_s": mean(hidden),
        "asking_s": mean(phases["wire"] - submit - waited_more),
        "ray_calls_s": mean(submit),
        "way_s": mean(waited_more),
        "wire_s": mean(phases["wire"]),
        "hidden_share": hidden / max(hidden + phases["draft"], 1e-9),
        "differing_answers": differ,
    }
    rate = sorted(run.record.tokens_per_s for run in mine)[len(mine) // 2]
    return Row(
        SECTION,
        ALL_TASKS,
        name,
        clients,
        tokens_per_s=rate,
        speedup_vs_plain=_ratio(mine, runs[PLAIN]).value,
        identical=1 - differ / sum(len(run.record.outputs) for run in mine),
        special=special,
    )


def _ratio(mine: Sequence[Run], others: Sequence[Run]) -> Estimate:
    return paired_ratio([r.record.tokens_per_s for r in mine], [r.record.tokens_per_s for r in others])


def _print(options: argparse.Namespace, rows: Sequence[Row], lease_s: float) -> None:
    table = [_cells(row) for row in rows]
    print(render(f"{options.model}, greedy, a step of all clients' sequences in ms", HEADER, table))
    print(f"a lease is renewed in {lease_s * 1e3:.1f} ms, in a thread beside the steps")
    for row in rows:
        if row.method not in (PLAIN, COLOCATED):
            print(_verdict(row, next(r for r in rows if _is_base(r, row))))


def _is_base(row: Row, of: Row) -> bool:
    return row.method == COLOCATED and row.concurrency == of.concurrency


def _verdict(row: Row, base: Row) -> str:
    low, high = (row.special["ratio_to_colocated"][end] for end in ("low", "high"))
    beats = "beats colocated" if low > 1 else "loses to colocated" if high < 1 else "as fast as colocated"
    over = (row.special["wire_s"] - base.special["wire_s"]) / base.special["step_s"]
    goal = ""
    if row.concurrency == TARGET_CLIENTS:
        goal = f" (at most {TARGET:.0%}: {'met' if over <= TARGET else 'not met'})"
    return (
        f"{row.concurrency} clients, {row.method}: {beats}; lease, wire and Ray take {percent(over)} of "
        f"colocated's step{goal}; {percent(row.special['hidden_share'])} of drafting is hidden"
    )


def _cells(row: Row) -> tuple[str, ...]:
    names = ("step_s", "forward_s", "draft_waited_s", "draft_hidden_s", "asking_s", "ray_calls_s", "way_s")
    ratio = row.special["ratio_to_colocated"]
    rates = f"{row.tokens_per_s:.1f}", f"{ratio['value']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"
    return (row.method, str(row.concurrency), *rates, *(f"{row.special[n] * 1e3:.2f}" for n in names))
