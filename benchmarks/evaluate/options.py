"""The options of `python -m benchmarks evaluate`."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.parsing import (
    DTYPES,
    TASKS,
    check_output,
    count,
    from_flags,
    names,
    pairs,
    setting,
    temperatures,
    written,
)
from benchmarks.questions import FORMAT


@dataclass(frozen=True, slots=True)
class Options:
    """Field names are the flags'."""

    questions: Path
    tasks: tuple[str, ...]
    limit: int
    max_tokens: int
    temperature: tuple[float, ...]
    model: str
    dtype: str
    head: str | None
    eagle1_head: str | None
    draft_model: str | None
    set: tuple[str, ...]
    out: Path

    @classmethod
    def of(cls, parsed: argparse.Namespace) -> Options:
        """Raises BenchmarkError where the output could not be written when the work is done."""
        options = from_flags(cls, parsed)
        check_output(options.out)
        return options

    @property
    def has_head(self) -> bool:
        """Whether an EAGLE-3 head is compared: the one that is named, or the default model's own."""
        return self.head is not None or self.model == "default"

    @property
    def settings(self) -> dict[str, Any]:
        """Of every method's engine, as ServeConfig's."""
        return {
            "model": self.model,
            "dtype": self.dtype,
            "speculation.placement": "colocated",
            "engine.enable_prefix_caching": False,  # every method meets every prompt
            **pairs(self.set),
        }

    def as_json(self) -> dict[str, Any]:
        return written(asdict(self))


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--questions", type=Path, help=FORMAT)
    add("--out", type=Path, metavar="PATH", help="JSON file to write")
    add("--tasks", type=names(None), default=",".join(TASKS), help="files to read, without .jsonl")
    add("--limit", type=count, default=10, help="questions per task")
    add("--max-tokens", type=count, default=128, help="new tokens per answer, unless it ends before")
    add("--temperature", type=temperatures, default="0", help="one or several, separated by commas")
    add("--model", default="default", help="as in the service's settings")
    add("--head", help="EAGLE-3 head (the default model brings one)")
    add("--eagle1-head", help="head of EAGLE-1, for EAGLE-1's static and EAGLE-2's dynamic trees")
    add("--draft-model", help="small model of the same tokenizer, to draft on its own")
    add("--dtype", choices=DTYPES, default="auto", help="of all methods; auto: the faster on this machine")
    add(
        "--set",
        type=setting,
        nargs="+",
        default=(),
        metavar="KEY=VALUE",
        help="of all engines, as of `serve run`; speculation.num_speculative_tokens=5: the same m for all",
    )
