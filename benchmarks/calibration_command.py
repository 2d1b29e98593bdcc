"""`python -m benchmarks calibration` on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.parsing import TASKS, add_parser, check_questions
from benchmarks.questions import FORMAT


def add_command(commands: Any) -> None:
    parser = add_parser(
        commands,
        "calibration",
        help="how far draft confidences are from what comes true, raw and calibrated",
        description="Answers questions with an engine in this process. The first half of each task's only "
        "teaches the calibration, the second half is measured by confidences as they were sent, before their "
        "outcome was known. The expected calibration error is the mean distance between confidence and "
        "acceptance over ten bins; by chance is what perfect confidences would show of so few draft tokens.",
    )
    parser.set_defaults(run=lambda parsed, arguments: _run(parser, parsed, arguments))
    add = parser.add_argument
    add("--questions", type=Path, help=FORMAT)
    add("--tasks", default=",".join(TASKS), help="files to read, without .jsonl")
    add("--limit", type=int, default=8, help="questions per task")
    add("--max-tokens", type=int, default=128, help="new tokens per answer")
    add("--temperatures", type=float, nargs="+", default=[0.0, 1.0])
    add(
        "--concurrency",
        type=int,
        default=1,
        help="requests at once (with many, mode auto drafts little)",
    )
    add("--model", default="default", help="as in the service's settings")
    add("--set", nargs="+", default=(), metavar="KEY=VALUE", help="settings of the engine, as of `serve run`")
    add("--json", type=Path, metavar="PATH", help="write rows there")
    add("--figure", type=Path, metavar="PATH", help="draw reliability there (png, svg, pdf)")


def _run(parser: argparse.ArgumentParser, parsed: argparse.Namespace, arguments: list[str]) -> None:
    check_questions(parser, parsed.questions)
    from benchmarks.calibration import run  # torch: not for --help

    run(parsed, arguments)
