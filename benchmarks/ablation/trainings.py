"""One small training, by the trainer that the shipped head was made with."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path

from benchmarks.ablation.options import Options
from benchmarks.ablation.plan import DEEP_SHARE, EAGLE1, STEP_DECAY, Training
from benchmarks.errors import BenchmarkError
from training import evaluate as evaluation
from training import train as trainer
from training.checkpoint import NAME as CHECKPOINT

NEVER = "1000000"  # steps between measurements while a head trains: it is measured when it is done
SAVE_MINUTES = "2"


def train(training: Training, options: Options) -> Path:
    """The trained head's folder; an interrupted training goes on.

    Raises TrainingError where the folder holds another run, and BenchmarkError when it was stopped.
    """
    folder = options.work / training.name
    trainer.run(_trainer_options(training, options, folder))
    head = folder / "head"
    if not head.is_dir():
        raise BenchmarkError(f"{training.name} was stopped; the same command goes on from there")
    return head


def recipe(training: Training, options: Options) -> dict[str, str]:
    """The trainer's flags that say what is learned, and from how much."""
    flags = {
        "method": "eagle1" if training.method == EAGLE1 else "eagle3",
        "train-tokens": str(training.tokens),
        "epochs": str(training.epochs),
        "batch-tokens": str(options.batch_tokens),
        "held-out": str(options.held_out),
        "dtype": options.dtype,
    }
    if training.method == EAGLE1:
        return flags
    unrolled = {"deep-share": str(DEEP_SHARE), "step-decay": str(STEP_DECAY)}
    flags |= {"ttt-steps": str(training.draft_steps), "draft-vocab-size": str(options.draft_vocab_size)}
    return flags | (unrolled if training.draft_steps > 1 else {})


def evaluation_options(head: Path, options: Options) -> Namespace:
    """Of `training evaluate`, to measure `head` on what was held out."""
    flags = {"head": str(head), "out": str(options.work), "held-out": str(options.held_out)}
    return _parsed(evaluation.add_arguments, flags | _target(options) | {"dtype": options.dtype}, options)


def _trainer_options(training: Training, options: Options, folder: Path) -> Namespace:
    flags = recipe(training, options) | _target(options)
    flags |= {"out": str(folder), "eval-every": NEVER, "save-minutes": SAVE_MINUTES}
    more = [] if training.fused or training.method == EAGLE1 else ["--no-fusion"]
    resumed = ["--resume"] if (folder / CHECKPOINT).exists() else []
    return _parsed(trainer.add_arguments, flags, options, *more, *resumed)


def _target(options: Options) -> dict[str, str]:
    """The target, and the text that it has run over."""
    text = {"features": options.features, "data": options.data}
    return {
        "model": options.model,
        "threads": str(options.threads),
        "target-dtype": options.dtype,
        **{name: str(path) for name, path in text.items() if path is not None},
    }


def _parsed(
    add_arguments: Callable[[ArgumentParser], None], flags: dict[str, str], options: Options, *more: str
) -> Namespace:
    """As the command line would give them, with its defaults."""
    parser = ArgumentParser()
    add_arguments(parser)
    words = [word for name, value in flags.items() for word in (f"--{name}", value)]
    layers = ["--layers", *map(str, options.layers)] if options.layers and options.data else []
    return parser.parse_args([*words, *layers, *more])
