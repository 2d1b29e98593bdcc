"""The results as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.cells import differences, identical, with_interval
from benchmarks.report import Row
from benchmarks.speed import batch, breakdown, footprint, tasks, tau
from benchmarks.speed.methods import LEGEND
from benchmarks.speed.targets import Verdict
from benchmarks.table import ABSENT, number, percent, render

HEADLINE = """\
tok/s is the headline: an answer's tokens over its whole time, prefill included; decode tok/s counts from the
first token on. vs plain is the median of the ratios question by question, with its 95 % interval (over HTTP
to plain over HTTP). tau: committed tokens per sequence and decode step, bonus included, prefill excluded."""


def print_tables(rows: Sequence[Row], verdicts: Sequence[Verdict]) -> None:
    tables = (_tasks, _batch, _breakdown, _tau, _memory, differences)
    for table in (make(rows) for make in tables):
        for text in table:
            print(text)
    print(_verdicts(verdicts))


def _of(rows: Sequence[Row], section: str) -> list[Row]:
    return [row for row in rows if row.section == section]


def _tasks(rows: Sequence[Row]) -> Iterator[str]:
    if chosen := _of(rows, tasks.SECTION):
        lines = [
            [
                f"{row.task}  {row.method}",
                number(row.tokens_per_s, 1),
                number(row.special["decode_tokens_per_s"], 1),
                with_interval(row.speedup_vs_plain, row.special["speedup_interval"]),
                with_interval(row.special["decode_speedup_vs_plain"], row.special["decode_speedup_interval"]),
                number(1e3 * row.special["first_token_s"], 0),
                number(row.tau),
                identical(row),
            ]
            for row in chosen
        ]
        header = [
            "one request at a time",
            "tok/s",
            "decode tok/s",
            "vs plain",
            "decode vs plain",
            "first token ms",
            "tau",
            "identical",
        ]
        legend = "\n".join(
            f"  {name}: {LEGEND[name]}" for name in dict.fromkeys(row.method for row in chosen)
        )
        yield render(f"\n{HEADLINE}\n{legend}\n", header, lines)


def _batch(rows: Sequence[Row]) -> Iterator[str]:
    if chosen := _of(rows, batch.SECTION):
        lines = [
            [
                f"{row.concurrency}  {row.method}",
                number(row.tokens_per_s, 1),
                number(row.special["decode_tokens_per_s"], 1),
                number(row.special["scaling"]),
                number(row.special["decode_scaling"]),
                with_interval(row.speedup_vs_plain, row.special["speedup_interval"]),
                number(row.tau),
                identical(row),
            ]
            for row in chosen
        ]
        header = [
            "requests at once",
            "tok/s",
            "decode tok/s",
            "x one request",
            "decode x one",
            "vs plain",
            "tau",
            "identical",
        ]
        yield render("Questions of all tasks mixed", header, lines)


def _breakdown(rows: Sequence[Row]) -> Iterator[str]:
    if chosen := _of(rows, breakdown.SECTION):
        names = (*breakdown.PHASES, breakdown.REST)
        lines = [
            [
                f"{row.concurrency}  {row.method}",
                number(row.special["step_ms"]),
                *(number(row.special["phases_ms"][name], 3) for name in names),
                percent(row.special["overhead_share"]),
                percent(row.special["draft_share"]),
            ]
            for row in chosen
        ]
        header = ["requests", "step", *names, "outside forward, draft", "draft / forward"]
        yield render("Milliseconds of a step while requests decode", header, lines)


def _tau(rows: Sequence[Row]) -> Iterator[str]:
    if chosen := _of(rows, tau.SECTION):
        sizes = sorted({row.special["num_speculative_tokens"] for row in chosen})
        taus = {(r.task, r.method, r.special["num_speculative_tokens"]): r.tau for r in chosen}
        lines = [
            [f"{task}  {method}", *(number(taus[task, method, size]) for size in sizes)]
            for task, method in dict.fromkeys((row.task, row.method) for row in chosen)
        ]
        yield render("tau by draft tokens m, nothing pruned", ["", *(f"m = {size}" for size in sizes)], lines)


def _memory(rows: Sequence[Row]) -> Iterator[str]:
    if chosen := _of(rows, footprint.SECTION):
        lines = [
            [row.special["role"], str(row.special["processes"]), number(row.special["pss_bytes"] / 1e6, 0)]
            for row in chosen
        ]
        yield render("Memory of the whole service", ["role", "processes", "PSS MB"], lines)


def _verdicts(verdicts: Sequence[Verdict]) -> str:
    lines = [
        [v.name, v.target, v.measured, v.decode or ABSENT, "met" if v.met else "missed"] for v in verdicts
    ]
    return render("Targets", ["", "target", "measured", "decode only", ""], lines)
