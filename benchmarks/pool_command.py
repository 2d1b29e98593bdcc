"""`python -m benchmarks pool` on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.parsing import DTYPES, add_parser, check_output, count, counts, names, pairs, setting
from benchmarks.questions import FORMAT
from benchmarks.waiting import wait_as_the_service_does

TUNING = Path(__file__).parent / "questions_tuning"


def add_command(commands: Any) -> None:
    parser = add_parser(
        commands,
        "pool",
        help="a drafter pool against a colocated drafter, and what a step spends on the way there",
        description="Engines in this process answer the same requests with a colocated drafter and with one "
        "in a pool replica on a local Ray, with and without overlap, by turns.",
    )
    parser.set_defaults(run=_run)
    add = parser.add_argument
    add("--model", default="default", help="as in the service's settings")
    add("--dtype", choices=DTYPES, default="auto")
    add("--questions", type=Path, default=TUNING, help=FORMAT)
    add("--task", default="self_written", help="file to read, without .jsonl")
    add("--clients", type=counts, default=(1, 4, 8, 16), help="requests at once, by commas")
    add("--overlap", type=names(("off", "always", "auto")), default=("off", "always"), help="of the pool")
    add("--max-tokens", type=count, default=48, help="new tokens per answer")
    add("--repeats", type=count, default=4, help="of every run, two requests per client each")
    add(
        "--set",
        type=setting,
        nargs="+",
        default=("speculation.num_speculative_tokens=5",),
        metavar="KEY=VALUE",
    )
    add("--json", type=Path, metavar="PATH", help="write rows there")


def _run(parsed: argparse.Namespace, arguments: list[str]) -> None:
    check_output(parsed.json)
    wait_as_the_service_does({"model": parsed.model, "dtype": parsed.dtype, **pairs(parsed.set)})
    from benchmarks.pool import run  # torch and Ray: not for --help

    run(parsed, arguments)
