"""`python -m benchmarks load` on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.load.options import LoadOptions
from benchmarks.parsing import (
    DTYPES,
    TASKS,
    add_parser,
    check_output,
    check_questions,
    count,
    counts,
    from_flags,
    names,
    setting,
)
from benchmarks.questions import FORMAT


def add_command(commands: Any) -> None:
    parser = add_parser(
        commands,
        "load",
        help="throughput against load: plain, fixed m, and m chosen in every step",
        description="One engine in this process answers a mix of the tasks under different loads, each with "
        "plain decoding, every fixed m, mode auto and, with --urgent, mode latency by turns, and their "
        "answers are compared.",
    )
    parser.set_defaults(run=lambda parsed, arguments: _run(parser, parsed, arguments))
    add = parser.add_argument
    add("--questions", type=Path, help=FORMAT)
    add("--tasks", type=names(None), default=TASKS, help="files to read, without .jsonl")
    add("--limit", type=count, default=10, help="questions per task")
    add("--max-tokens", type=count, default=96, help="new tokens per answer")
    add("--temperature", type=float, default=0.0)
    add("--concurrency", type=counts, default=(1, 4, 16, 64), help="clients that wait for their answers")
    add("--rates", type=_rates, default=(), help="requests a second, Poisson arrivals (default: none)")
    add("--fixed", type=counts, default=(4, 16), help="values of m to compare with")
    add("--urgent", type=_share, help="share of requests of priority 0; measures mode latency too")
    add("--floors", type=_shares, default=(0.8,), help="values of min_throughput for mode latency")
    add("--requests", type=count, default=3, help="of a run, per client; at least 8 in all")
    add("--repeats", type=count, default=4, help="of every run")
    add("--settle", action="store_true", help="also trace m through changes of load and of traffic")
    add("--model", default="default", help="as in the service's settings")
    add("--dtype", choices=DTYPES, default="auto")
    add("--set", type=setting, nargs="+", default=(), metavar="KEY=VALUE")
    add("--json", type=Path, metavar="PATH", help="write rows there")
    add("--figure", type=Path, metavar="PATH", help="draw throughput and m there (png, svg, pdf)")


def _rates(text: str) -> tuple[float, ...]:
    return tuple(sorted(set(_numbers(text, lambda rate: rate > 0, "a list of rates above 0"))))


def _share(text: str) -> float:
    (share,) = _shares(text)
    return share


def _shares(text: str) -> tuple[float, ...]:
    return _numbers(text, lambda share: 0 <= share <= 1, "from 0 to 1")


def _numbers(text: str, fits: Callable[[float], bool], wanted: str) -> tuple[float, ...]:
    """wanted: what they are not, where one of them is no number or does not fit."""
    try:
        numbers = tuple(map(float, text.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or not all(map(fits, numbers)):
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")
    return numbers


def _run(parser: argparse.ArgumentParser, parsed: argparse.Namespace, arguments: list[str]) -> None:
    check_questions(parser, parsed.questions)
    check_output(parsed.json)
    check_output(parsed.figure)
    from benchmarks.load.run import run  # torch: not for --help

    run(from_flags(LoadOptions, parsed), arguments)
