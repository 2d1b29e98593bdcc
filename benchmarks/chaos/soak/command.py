"""`python -m benchmarks soak` on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.chaos.command import add_service
from benchmarks.chaos.soak.options import SoakOptions
from benchmarks.parsing import add_parser, check_output, count, from_flags


def add_command(commands: Any) -> None:
    parser = add_parser(
        commands,
        "soak",
        help="memory, open files and objects under steady load for long",
        description="Keeps the service busy and measures what all of its processes take. Fails if something "
        "grows after the warm-up, or a request fails.",
    )
    parser.set_defaults(run=_run)
    add = parser.add_argument
    add("--minutes", type=_positive, default=30.0, help="of load")
    add("--warm-up", type=_share, default=0.3, help="share of the minutes that is not judged")
    add("--every-s", type=_positive, default=10.0, help="seconds between two samples")
    add("--concurrency", type=count, default=4, help="clients that wait for their answers")
    add("--max-tokens", type=count, default=64, help="new tokens per answer; half as many at least")
    add("--seed", type=int, default=0, help="of the requests")
    add_service(add)
    add("--json", type=Path, metavar="PATH", help="write rows there")
    add("--figure", type=Path, metavar="PATH", help="draw everything over time there (png, svg, pdf)")


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def _share(text: str) -> float:
    value = _positive(text)
    if value >= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share below 1")
    return value


def _run(parsed: argparse.Namespace, arguments: list[str]) -> None:
    check_output(parsed.json)
    check_output(parsed.figure)
    from benchmarks.chaos.soak.run import run  # torch: not for --help

    run(from_flags(SoakOptions, parsed), arguments)
