"""`python -m benchmarks prefix` on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.parsing import add_parser


def add_command(commands: Any) -> None:
    parser = add_parser(
        commands,
        "prefix",
        help="time to first token with a prefix that is cached, and without",
        description="Sends pairs of requests that share a prefix to an engine in this process: the first "
        "computes it, the second finds it. Times include the drafter's first look at the prompt.",
    )
    parser.set_defaults(run=_run)
    parser.add_argument("--model", default="default", help="as in the service's settings")
    parser.add_argument("--prefix", type=int, default=1000, help="tokens that a pair shares")
    parser.add_argument("--suffix", type=int, default=20, help="tokens of each request alone")
    parser.add_argument("--repeats", type=int, default=5, help="pairs, after one that is not counted")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write rows there")


def _run(parsed: argparse.Namespace, arguments: list[str]) -> None:
    from benchmarks.prefix import run  # torch: not for --help

    run(parsed, arguments)
