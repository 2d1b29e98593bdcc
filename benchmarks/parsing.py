"""What the commands' parsers share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.errors import BenchmarkError
from benchmarks.questions import FORMAT

TASKS = ("mt_bench", "humaneval", "gsm8k", "alpaca", "cnn_dm", "natural_questions")
Options = TypeVar("Options", bound=Any)
DTYPES = ("auto", "bfloat16", "float32", "float16")


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


def check_output(path: Path | None) -> None:
    """Raises BenchmarkError where a result could not be written when the work is done."""
    if path is not None and not path.absolute().parent.is_dir():
        raise BenchmarkError(f"{path}: there is no folder {path.absolute().parent}")


def from_flags(options: type[Options], parsed: argparse.Namespace) -> Options:
    """The dataclass `options`, whose field names are the flags'."""
    values = {field.name: getattr(parsed, field.name) for field in fields(options)}
    made: Options = options(**values | {"set": tuple(parsed.set)})
    return made


def given(options: argparse.Namespace) -> dict[str, str]:
    """The options as a report writes them."""
    return {name: str(value) for name, value in vars(options).items() if name != "run" and value is not None}


def written(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of options as JSON has them."""
    return {name: str(v) if isinstance(v, Path) else v for name, v in options.items() if v is not None}


def pairs(settings: Iterable[str]) -> dict[str, str]:
    """Of texts that `setting` has let through."""
    return dict(text.split("=", 1) for text in settings)


def count(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def counts(text: str) -> tuple[int, ...]:
    return tuple(sorted({count(part) for part in text.split(",")}))


def setting(text: str) -> str:
    if not text.partition("=")[0] or "=" not in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return text


def temperatures(text: str) -> tuple[float, ...]:
    try:
        values = tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        values = (-1.0,)
    if not all(0 <= value <= 2 for value in values):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of temperatures from 0 to 2")
    return values


def names(allowed: tuple[str, ...] | None) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
        for name in found:
            if not name or (allowed is not None and name not in allowed):
                choices = f"; choose from {', '.join(allowed)}" if allowed else ""
                raise argparse.ArgumentTypeError(f"{name!r} is not a name known here{choices}")
        return found

    return parse
