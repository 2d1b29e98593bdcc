"""The options of `python -m benchmarks peers`."""

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
    counts,
    from_flags,
    names,
    pairs,
    setting,
    written,
)
from benchmarks.questions import FORMAT

# A padded batch is as long as its longest prompt, and CNN/DM's are ten times as long as the others.
SHORT_TASKS = tuple(task for task in TASKS if task != "cnn_dm")


@dataclass(frozen=True, slots=True)
class Options:
    """Field names are the flags'."""

    questions: Path
    tasks: tuple[str, ...]
    batch: tuple[int, ...]
    repeats: int
    max_tokens: int
    model: str
    dtype: str
    head: str | None
    draft_model: str | None
    peer_draft_tokens: int
    vllm: str | None
    set: tuple[str, ...]
    json: Path | None

    @classmethod
    def of(cls, parsed: argparse.Namespace) -> Options:
        """Raises BenchmarkError where the output could not be written when the work is done."""
        options = from_flags(cls, parsed)
        check_output(options.json)
        return options

    @property
    def settings(self) -> dict[str, Any]:
        """Of our engine: as it is by default, but for what a measurement needs."""
        return {
            "model": self.model,
            "dtype": self.dtype,
            "speculation.method": "auto",
            "speculation.head": self.head,
            "speculation.placement": "colocated",
            "engine.enable_prefix_caching": False,  # every system meets every prompt, and more than once
            **pairs(self.set),
        }

    def as_json(self) -> dict[str, Any]:
        return written(asdict(self))


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--questions", type=Path, help=FORMAT)
    add("--tasks", type=names(None), default=",".join(SHORT_TASKS), help="files to read, without .jsonl")
    add("--batch", type=counts, default="1,4,16,40", help="prompts at once")
    add("--repeats", type=count, default=5, help="batches of each size, each of other prompts")
    add("--max-tokens", type=count, default=128, help="new tokens per answer, unless it ends before")
    add("--model", default="default", help="as in the service's settings")
    add("--head", help="EAGLE-3 head, for our engine and vLLM (the default model brings one)")
    add("--draft-model", help="folder of a small model of the same tokenizer, for assisted generation")
    add("--peer-draft-tokens", type=count, default=3, help="a step, where a peer must be told a number")
    add("--vllm", metavar="PYTHON", help="Python of an environment in which vLLM is installed")
    add("--dtype", choices=DTYPES, default="auto", help="of all systems; auto: the faster on this machine")
    add(
        "--set",
        type=setting,
        nargs="+",
        default=(),
        metavar="KEY=VALUE",
        help="settings of our engine, as of `serve run`",
    )
    add("--json", type=Path, metavar="PATH", help="write rows there")
