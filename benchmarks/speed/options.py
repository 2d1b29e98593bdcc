"""The options of `python -m benchmarks speed`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.errors import BenchmarkError
from benchmarks.questions import FORMAT

TASKS = ("mt_bench", "humaneval", "gsm8k", "alpaca", "cnn_dm", "natural_questions")
SECTIONS = ("memory", "tasks", "transformers", "batch", "breakdown", "tau")
WAYS = ("engine", "http")
DTYPES = ("auto", "bfloat16", "float32", "float16")
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
        options = cls(
            **{field.name: getattr(parsed, field.name) for field in fields(cls)} | {"set": tuple(parsed.set)}
        )
        for path in (options.json, options.figure):
            if path is not None and not path.absolute().parent.is_dir():
                raise BenchmarkError(f"{path}: there is no folder {path.absolute().parent}")
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
        return dict(setting.split("=", 1) for setting in self.set)

    @property
    def asks_one_by_one(self) -> bool:
        return "tasks" in self.sections or self.with_transformers

    @property
    def with_transformers(self) -> bool:
        """Without section `tasks` it is compared with plain alone."""
        return "transformers" in self.sections

    def as_json(self) -> dict[str, Any]:
        written = asdict(self)
        return {name: str(v) if isinstance(v, Path) else v for name, v in written.items() if v is not None}


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--questions", type=Path, help=FORMAT)
    add("--tasks", type=_names(None), default=",".join(TASKS), help="files to read, without .jsonl")
    add("--limit", type=_count, default=8, help="questions per task")
    add("--max-tokens", type=_count, default=128, help="new tokens per answer, unless it ends before")
    add("--repeats", type=_count, default=2, help="times that every question is asked by every method")
    add("--concurrency", type=_counts, default="1,8,16", help="requests at once, in section batch")
    add("--model", default="default", help="as in the service's settings")
    add("--head", help="EAGLE-3 head to compare (the default model brings one)")
    add(
        "--set",
        type=_setting,
        nargs="+",
        default=(),
        metavar="KEY=VALUE",
        help="settings of all services and engines, as of `serve run`",
    )
    add("--dtype", choices=DTYPES, default="auto", help="of all methods; auto: the faster on this machine")
    add(
        "--through", type=_names(WAYS), default=",".join(WAYS), help="engine: in process; http: whole service"
    )
    add("--sections", type=_names(SECTIONS), default=",".join(SECTIONS), help="parts to measure")
    add("--json", type=Path, metavar="PATH", help="write rows there")
    add("--figure", type=Path, metavar="PATH", help="draw results there (png, svg, pdf)")


def _count(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def _setting(text: str) -> str:
    if not text.partition("=")[0] or "=" not in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return text


def _counts(text: str) -> tuple[int, ...]:
    return tuple(sorted({_count(part) for part in text.split(",")}))


def _names(allowed: tuple[str, ...] | None) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
        for name in names:
            if not name or (allowed is not None and name not in allowed):
                choices = f"; choose from {', '.join(allowed)}" if allowed else ""
                raise argparse.ArgumentTypeError(f"{name!r} is not a name known here{choices}")
        return names

    return parse
