"""`python -m benchmarks speed` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.parsing import add_parser, check_questions
from benchmarks.speed.options import Options, add_options


def add_command(commands: Any) -> None:
    parser = add_parser(
        commands,
        "speed",
        help="plain and speculative decoding and transformers, in turns",
        description="Measures plain decoding, prompt lookup, EAGLE-3 and transformers' `generate`: the "
        "engine in this process, and the whole service on Ray over HTTP.",
    )
    parser.set_defaults(run=lambda parsed, arguments: _run(parser, parsed, arguments))
    add_options(parser)


def _run(parser: argparse.ArgumentParser, parsed: argparse.Namespace, arguments: list[str]) -> None:
    check_questions(parser, parsed.questions)
    from benchmarks.speed.run import run  # torch: not for --help

    run(Options.of(parsed), arguments)
