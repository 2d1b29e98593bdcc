"""`python -m benchmarks deterministic` on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.parsing import add_parser


def add_command(commands: Any) -> None:
    parser = add_parser(
        commands,
        "deterministic",
        help="what engine.deterministic costs where torch computes",
        description="Runs two engines in this process, one as torch is and one deterministic, in turns.",
    )
    parser.set_defaults(run=_run)
    parser.add_argument("--model", default="default", help="as in the service's settings")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--repeats", type=int, default=5, help="pairs, after one that is not counted")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write rows there")


def _run(parsed: argparse.Namespace, arguments: list[str]) -> None:
    from benchmarks.deterministic import run  # torch: not for --help

    run(parsed, arguments)
