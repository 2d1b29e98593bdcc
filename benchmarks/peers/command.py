"""`python -m benchmarks peers` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.parsing import add_parser, check_questions
from benchmarks.peers.options import Options, add_options


def add_command(commands: Any) -> None:
    parser = add_parser(
        commands,
        "peers",
        help="the same prompts through other systems, by batch size",
        description="Batches of prompts through our engine, transformers' `generate` and vLLM, in turns, "
        "greedy, with the same dtype and number of threads.",
    )
    parser.set_defaults(run=lambda parsed, arguments: _run(parser, parsed, arguments))
    add_options(parser)


def _run(parser: argparse.ArgumentParser, parsed: argparse.Namespace, arguments: list[str]) -> None:
    check_questions(parser, parsed.questions)
    from benchmarks.peers.run import run  # numpy and pydantic: not for --help

    run(Options.of(parsed), arguments)
