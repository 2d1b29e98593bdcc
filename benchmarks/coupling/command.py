"""`python -m benchmarks coupling` on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.parsing import TASKS, add_parser, check_questions
from benchmarks.questions import FORMAT


def add_command(commands: Any) -> None:
    parser = add_parser(
        commands,
        "coupling",
        help="tau of sampled requests: drafts with and without the target's noise",
        description="Samples every question with the same seed, drafted by the head alone: without the noise "
        "that the target draws with, and with it. Greedy decoding is what coupling can hope for.",
    )
    parser.set_defaults(run=lambda parsed, arguments: _run(parser, parsed, arguments))
    add = parser.add_argument
    add("--questions", type=Path, help=FORMAT)
    add("--tasks", default=",".join(TASKS), help="files to read, without .jsonl")
    add("--limit", type=int, default=3, help="questions per task")
    add("--max-tokens", type=int, default=128, help="new tokens per answer")
    add("--temperatures", type=float, nargs="+", default=[0.7, 1.0])
    add("--spreads", type=float, nargs="+", default=[1.2], help="values of speculation.coupling_spread")
    add("--num-speculative-tokens", type=int, default=16, help="m: draft tokens of a step")
    add("--model", default="default", help="as in the service's settings")
    add("--head", help="EAGLE-3 head (the default model brings one)")
    add("--dtype", default="auto")
    add("--json", type=Path, metavar="PATH", help="write rows there")
    add("--figure", type=Path, metavar="PATH", help="draw acceptance by depth there (png, svg, pdf)")


def _run(parser: argparse.ArgumentParser, parsed: argparse.Namespace, arguments: list[str]) -> None:
    check_questions(parser, parsed.questions)
    from benchmarks.coupling.run import run  # torch: not for --help

    run(parsed, arguments)
