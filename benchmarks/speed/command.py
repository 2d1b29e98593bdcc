"""`python -m benchmarks speed` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.questions import FORMAT
from benchmarks.speed.options import Options, add_options


def add_command(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "speed",
        help="plain and speculative decoding and transformers, in turns",
        description="Measures plain decoding, prompt-lookup speculation and transformers' `generate`: "
        "the engine in this process, and the whole service on Ray over HTTP.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.set_defaults(run=lambda parsed, arguments: _run(parser, parsed, arguments))
    add_options(parser)


def _run(parser: argparse.ArgumentParser, parsed: argparse.Namespace, arguments: list[str]) -> None:
    if parsed.questions is None:
        parser.error(f"--questions is required: {FORMAT}")
    from benchmarks.speed.run import run  # torch: not for --help

    run(Options.of(parsed), arguments)
