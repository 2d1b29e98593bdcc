"""The options of `python -m benchmarks speed`."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.errors import BenchmarkError
from benchmarks.parsing import (
    DTYPES,
    TASKS,
    check_output,
    count,
    counts,
    from_flags,
    names,
    pairs,
    setting,
    written,
)
from benchmarks.questions import FORMAT

SECTIONS = ("memory", "tasks", "transformers", "batch", "breakdown", "tau")
WAYS = ("engine", "http")
FIGURE_FORMATS = (".png", ".svg", ".pdf")


@dataclass(frozen=True, slots=True)
class Options:
    """Field names are the flags'."""

    questions: Path
    tasks: tuple[str, ...]
    limit: int
    max_tokens: int
    repeats: int
    concurrency: tuple[int, ...]
    model: str
    dtype: str
    head: str | None
    set: tuple[str, ...]
    through: tuple[str, ...]
    sections: tuple[str, ...]
    json: Path | None
    figure: Path | None

    @classmethod
    def of(cls, parsed: argparse.Namespace) -> Options:
        """Raises BenchmarkError where an output could not be written when the work is done."""
        options = from_flags(cls, parsed)
        for path in (options.json, options.figure):
            check_output(path)
        if options.figure is not None and options.figure.suffix not in FIGURE_FORMATS:
            raise BenchmarkError(f"{options.figure}: a figure must end in {', '.join(FIGURE_FORMATS)}")
        return options

    @property
    def has_head(self) -> bool:
        """Whether an EAGLE-3 head is compared: the one that is named, or the default model's own."""
        return self.head is not None or self.model == "default"

    @property
    def measures_tau(self) -> bool:
        return "tau" in self.sections and self.has_head

    @property
    def settings(self) -> dict[str, str]:
        return pairs(self.set)

    @property
    def asks_one_by_one(self) -> bool:
        return "tasks" in self.sections or self.with_transformers

    @property
    def with_transformers(self) -> bool:
        """Without section `tasks` it is compared with plain alone."""
        return "transformers" in self.sections

    def as_json(self) -> dict[str, Any]:
        return written(asdict(self))


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--questions", type=Path, help=FORMAT)
    add("--tasks", type=names(None), default=",".join(TASKS), help="files to read, without .jsonl")
    add("--limit", type=count, default=8, help="questions per task")
    add("--max-tokens", type=count, default=128, help="new tokens per answer, unless it ends before")
    add("--repeats", type=count, default=2, help="times that every question is asked by every method")
    add("--concurrency", type=counts, default="1,8,16", help="requests at once, in section batch")
    add("--model", default="default", help="as in the service's settings")
    add("--head", help="EAGLE-3 head to compare (the default model brings one)")
    add(
        "--set",
        type=setting,
        nargs="+",
        default=(),
        metavar="KEY=VALUE",
        help="settings of all services and engines, as of `serve run`",
    )
    add("--dtype", choices=DTYPES, default="auto", help="of all methods; auto: the faster on this machine")
    add("--through", type=names(WAYS), default=",".join(WAYS), help="engine: in process; http: whole service")
    add("--sections", type=names(SECTIONS), default=",".join(SECTIONS), help="parts to measure")
    add("--json", type=Path, metavar="PATH", help="write rows there")
    add("--figure", type=Path, metavar="PATH", help="draw results there (png, svg, pdf)")
