"""`python -m benchmarks ablation` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.ablation.options import Options, add_options
from benchmarks.parsing import add_parser, check_questions


def add_command(commands: Any) -> None:
    parser = add_parser(
        commands,
        "ablation",
        help="what each part of EAGLE-2 and EAGLE-3 is worth, and more text to train on",
        description="Grows trees without EAGLE-2's value and reranking, and trains small heads from scratch "
        "without parts of EAGLE-3 and on less text; all of them are measured on the same held-out text and "
        "questions. Trainings go on where they were interrupted, and what is finished is kept in --out.",
    )
    parser.set_defaults(run=lambda parsed, arguments: _run(parser, parsed, arguments))
    add_options(parser)


def _run(parser: argparse.ArgumentParser, parsed: argparse.Namespace, arguments: list[str]) -> None:
    check_questions(parser, parsed.questions)
    options = Options.of(parsed)
    if options.needs_text and (options.features is None) == (options.data is None):
        parser.error("heads are trained from --features or --data: give one of them")
    from benchmarks.ablation.run import run  # numpy and pydantic: not for --help

    run(options, arguments)
