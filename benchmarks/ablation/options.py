"""The options of `python -m benchmarks ablation`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.errors import BenchmarkError
from benchmarks.parsing import TASKS, count, counts, from_flags, names, pairs, setting
from benchmarks.questions import FORMAT

TREE, HEAD, SCALING, ALPHA, CALIBRATION = PARTS = ("tree", "head", "scaling", "alpha", "calibration")
OF_HEADS = (HEAD, SCALING, ALPHA)
RESULTS = Path(__file__).parent.parent / "results" / "ablation"


@dataclass(frozen=True, slots=True)
class Options:
    """Field names are the flags'."""

    questions: Path
    tasks: tuple[str, ...]
    limit: int
    max_tokens: int
    part: tuple[str, ...]
    features: Path | None
    data: Path | None
    layers: tuple[int, ...] | None
    train_tokens: int
    doublings: int
    draft_steps: int
    batch_tokens: int
    draft_vocab_size: int
    held_out: float
    held_out_conversations: int
    beam: tuple[int, ...]
    depth: int
    num_speculative_tokens: int
    model: str
    head: str | None
    dtype: str
    threads: int
    set: tuple[str, ...]
    work: Path
    out: Path
    estimate: bool

    @classmethod
    def of(cls, parsed: argparse.Namespace) -> Options:
        """Raises BenchmarkError where the output could not be written when the work is done."""
        options = from_flags(cls, parsed)
        if not options.out.absolute().parent.is_dir():
            raise BenchmarkError(f"--out {options.out}: there is no folder {options.out.absolute().parent}")
        return options

    @property
    def needs_text(self) -> bool:
        return any(part in OF_HEADS for part in self.part)

    @property
    def settings(self) -> dict[str, Any]:
        """Of every engine, as ServeConfig's; drafts are measured here, not what they cost."""
        return {
            "model": self.model,
            "dtype": self.dtype,
            "engine.num_threads": self.threads,
            "engine.enable_prefix_caching": False,
            "speculation.placement": "colocated",
            "speculation.with_prompt_lookup": False,
            "speculation.min_path_value": 0.0,
            "speculation.min_level_reach": 0.0,
            **pairs(self.set),
        }


def add_options(parser: argparse.ArgumentParser) -> None:
    _add_what(parser)
    _add_trainings(parser)
    _add_trees(parser)


def _add_what(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--part", type=names(PARTS), default=",".join(PARTS), help="some of these, separated by commas")
    add("--questions", type=Path, help=FORMAT)
    add("--tasks", type=names(None), default=",".join(TASKS), help="files to read, without .jsonl")
    add("--limit", type=count, default=3, help="questions per task")
    add("--max-tokens", type=count, default=96, help="new tokens per answer, unless it ends before")
    add("--model", default="default", help="as in the service's settings")
    add("--head", help="EAGLE-3 head of tree and calibration (the default model brings one)")
    # Never `auto`: it goes by timing, and all heads are to be measured in the same precision.
    add("--dtype", choices=("bfloat16", "float32"), default="bfloat16", help="of engines and trainings")
    add("--threads", type=count, default=2, help="of engines and trainings")
    add("--set", type=setting, nargs="+", default=(), metavar="KEY=VALUE", help="settings of all engines")
    add("--work", type=Path, default=Path("ablation"), help="folder for checkpoints and heads")
    add("--out", type=Path, default=RESULTS, help="folder for the results")
    add("--estimate", action="store_true", help="say how long it will take, and do nothing")


def _add_trainings(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--features", type=Path, help="what `python -m training capture` wrote, to train and to measure on")
    add("--data", type=Path, help="conversations instead, as `python -m training generate` writes them")
    add("--layers", type=int, nargs=3, help="target layers whose inputs are fused, of --data")
    add("--train-tokens", type=count, default=200_000, help="response tokens that every head learns from")
    add("--doublings", type=count, default=3, help="how often the text of the scaling curve doubles up to it")
    add("--draft-steps", type=count, default=5, help="of training-time test")
    add("--batch-tokens", type=count, default=1536, help="of one optimizer step, prompts included")
    add("--draft-vocab-size", type=count, default=6144)
    add("--held-out", type=float, default=0.05, help="share of the conversations that no head learns from")
    add("--held-out-conversations", type=count, default=80, help="greedy ones of them to measure on")


def _add_trees(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--beam", type=counts, default="4,10", help="nodes expanded per level; m is this times --depth")
    add("--depth", type=count, default=6, help="levels of a tree")
    add("--num-speculative-tokens", type=count, default=16, help="m where heads are compared")
