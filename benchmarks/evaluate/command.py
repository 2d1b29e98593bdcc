"""`python -m benchmarks evaluate` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.evaluate.options import Options, add_options
from benchmarks.parsing import add_parser, check_questions


def add_command(commands: Any) -> None:
    parser = add_parser(
        commands,
        "evaluate",
        help="tau, speed-up and acceptance of every method, task by task",
        description="Asks every question, in all its turns, of every method in turn, one at a time, by the "
        "engine in this process. What is finished is kept beside --out, and a later call goes on from there.",
    )
    parser.set_defaults(run=lambda parsed, arguments: _run(parser, parsed, arguments))
    add_options(parser)


def _run(parser: argparse.ArgumentParser, parsed: argparse.Namespace, arguments: list[str]) -> None:
    check_questions(parser, parsed.questions)
    if parsed.out is None:
        parser.error("--out is required: the JSON file to write")
    from benchmarks.evaluate.run import run  # numpy and pydantic: not for --help

    run(Options.of(parsed), arguments)
