"""The results of `benchmarks load` as tables and as one figure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from benchmarks.figure import Lines, Trace, draw
from benchmarks.report import Row
from benchmarks.table import number, percent, render


def print_tables(rows: Sequence[Row]) -> None:
    loads = [row for row in rows if row.section == "load"]
    header = [
        "load, m",
        "tokens/s",
        "/ plain (95%)",
        "/ best other",
        "latency s",
        "m",
        "at m = 0",
        "step time",
        "tokens",
        "choosing m",
        "identical",
    ]
    title = "Throughput (open loop: ratios of 1 / latency); m; errors of predicted step time and tokens"
    print(render(title, header, [_line(row) for row in loads]))
    _print_urgent(loads)
    settled = [row.special for row in rows if row.section == "settle"]
    if settled:
        header = ["phase", "final m", "settled after steps", "away afterwards"]
        lines = [
            [s["phase"], number(s["final_m"]), str(s["after_steps"]), str(s["away_afterwards"])]
            for s in settled
        ]
        print(render("How m follows changes of load and traffic", header, lines))


def _print_urgent(loads: Sequence[Row]) -> None:
    lines = []
    for row in loads:
        if (against := row.special.get("against_auto")) is not None:
            ratios = [_interval(against[f"{who}_ratio"]) for who in ("urgent", "others", "all")]
            rates = [number(against[f"{who}_tokens_per_s"], 1) for who in ("urgent", "others")]
            lines.append([f"{row.special['load']}, {row.method}", *rates, *ratios])
    if lines:
        header = [
            "load, m",
            "urgent tokens/s",
            "others",
            "urgent / auto (95%)",
            "others / auto",
            "all / auto",
        ]
        print(render("Tokens per second of one urgent request, of one other, and of all", header, lines))


def _line(row: Row) -> list[str]:
    special = row.special
    best = special.get("ratio_to_best")
    return [
        f"{special['load']}, {row.method}",
        number(row.tokens_per_s, 0),
        _interval(special["ratio_to_plain"]),
        f"{_interval(best)} {best['best']}" if best else "",
        number(special["latency_s"]),
        number(special["m"]),
        percent(special["share_at_0"]),
        percent(special["step_time_error"]),
        percent(special["tokens_error"]),
        percent(special["choosing_share"]),
        percent(row.identical),
    ]


def _interval(estimate: dict[str, Any]) -> str:
    return f"{estimate['value']:.2f} ({estimate['low']:.2f}-{estimate['high']:.2f})"


def chart(rows: Sequence[Row], path: Path) -> None:
    """Throughput against clients, and m beside it."""
    closed = [row for row in rows if row.section == "load" and row.special["rate"] is None]
    methods = list(dict.fromkeys(row.method for row in closed))

    def series(value: str) -> dict[str, list[tuple[float, float]]]:
        values = {
            method: [(float(row.concurrency), _value(row, value)) for row in closed if row.method == method]
            for method in methods
        }
        return {name: points for name, points in values.items() if points}

    panels = [
        Lines("throughput / plain decoding", "ratio of tokens per second", series("ratio"), log_x=True),
        Lines("draft tokens verified", "m per sequence and step", series("m"), log_x=True),
    ]
    draw([*panels, *_traces(rows)], path)


def _traces(rows: Sequence[Row]) -> list[Trace]:
    """m through both changes, if they were traced."""
    changes: dict[str, list[Row]] = {}
    for row in rows:
        if row.section == "settle":
            changes.setdefault(row.special["change"], []).append(row)
    if not changes:
        return []
    lengths = [len(row.special["m"]) for row in next(iter(changes.values()))]
    series = {change: [m for row in phases for m in row.special["m"]] for change, phases in changes.items()}
    title = f"m after changes (mean of {rows[-1].special['texts']} texts)"
    return [Trace(title, "step", "m per sequence", series, list(accumulate(lengths))[:-1])]


def _value(row: Row, name: str) -> float:
    return float(row.special["m"] if name == "m" else row.special["ratio_to_plain"]["value"])
