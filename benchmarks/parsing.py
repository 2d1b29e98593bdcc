"""What the commands' parsers share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.questions import FORMAT


def add_parser(commands: Any, name: str, *, help: str, description: str) -> argparse.ArgumentParser:
    """The parser of `python -m benchmarks NAME`; its help tells defaults."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=help, description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    return parser


def check_questions(parser: argparse.ArgumentParser, folder: Path | None) -> None:
    """End with a usage error that says what the folder must hold, where none is named."""
    if folder is None:
        parser.error(f"--questions is required: {FORMAT}")


def given(options: argparse.Namespace) -> dict[str, str]:
    """The options as a report writes them."""
    return {name: str(value) for name, value in vars(options).items() if name != "run" and value is not None}
