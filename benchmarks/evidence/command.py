"""`python -m benchmarks evidence` on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.parsing import add_parser, check_output

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "evidence.md"


def add_command(commands: Any) -> None:
    parser = add_parser(
        commands,
        "evidence",
        help="tables and figures of the papers beside ours, from the results that are there",
        description="Writes a page from the JSON files of other commands, and figures into `figures` beside "
        "it. Nothing is measured; what is missing is listed as not measured.",
    )
    parser.set_defaults(run=lambda parsed, arguments: _run(parsed))
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON files")
    parser.add_argument("--out", type=Path, default=PAGE, help="Markdown file to write")


def _run(parsed: argparse.Namespace) -> None:
    check_output(parsed.out)
    from benchmarks.evidence.page import write  # matplotlib: not for --help

    write(parsed.results, parsed.out)
