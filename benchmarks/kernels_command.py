"""`python -m benchmarks kernels` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.parsing import add_parser


def add_command(commands: Any) -> None:
    parser = add_parser(
        commands,
        "kernels",
        help="linear layers by number of rows: CPU kernels against torch",
        description="Times all linear layers of one forward with random weights of the model's shapes.",
    )
    parser.set_defaults(run=lambda parsed, arguments: _run(parsed))
    parser.add_argument("--model", default="default", help="as in the service's settings")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--rows", default="1,4,6,8,12,16,32,64", help="rows of a forward")
    parser.add_argument("--repeats", type=int, default=15)


def _run(parsed: argparse.Namespace) -> None:
    from benchmarks.kernels import run  # torch: not for --help

    run(parsed)
