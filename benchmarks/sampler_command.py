"""`python -m benchmarks sampler` on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.parsing import add_parser


def add_command(commands: Any) -> None:
    parser = add_parser(
        commands,
        "sampler",
        help="share of a step that choosing tokens takes, by sampling parameters",
        description="Decodes a batch in process, drafted as the service would, with each kind in turn.",
    )
    parser.set_defaults(run=_run)
    add = parser.add_argument
    add("--requests", type=int, default=8, help="at once")
    add("--max-tokens", type=int, default=64)
    add("--repeats", type=int, default=3)
    add("--model", default="default", help="as in the service's settings")
    add("--dtype", default="auto")
    add("--json", type=Path, metavar="PATH", help="write rows there")


def _run(parsed: argparse.Namespace, arguments: list[str]) -> None:
    from benchmarks.sampler import run  # torch: not for --help

    run(parsed, arguments)
