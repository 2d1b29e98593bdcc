"""`python -m benchmarks tensor-parallel` on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.parsing import DTYPES, add_parser, counts


def add_command(commands: Any) -> None:
    parser = add_parser(
        commands,
        "tensor-parallel",
        help="what ranks tell each other, as a share of a step",
        description="Decodes plainly with an engine of one rank and with others whose ranks are processes of "
        "this machine, and splits the time of rank 0's steps.",
    )
    parser.set_defaults(run=_run)
    parser.add_argument("--model", default="default", help="as in the service's settings")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--ranks", type=counts, default=(3,), help="numbers of ranks, by commas")
    parser.add_argument("--requests", type=counts, default=(1, 8), help="requests at once, by commas")
    parser.add_argument("--max-tokens", type=int, default=32, help="of each answer")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write rows there")


def _run(parsed: argparse.Namespace, arguments: list[str]) -> None:
    from benchmarks.tensor_parallel import run  # torch: not for --help

    run(parsed, arguments)
