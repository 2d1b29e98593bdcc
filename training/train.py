"""`train`: from features to a head."""

from __future__ import annotations

import hashlib
import signal
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from tqdm import tqdm

from training.acceptance import Judge
from training.capture import Source
from training.checkpoint import NAME as CHECKPOINT
from training.checkpoint import Checkpoint
from training.data import Conversation
from training.errors import TrainingError
from training.export import TrainedHead, build_head
from training.head import Eagle3Head
from training.head_config import HeadConfig
from training.material import Material, load_material
from training.objective import Borrowed, CrossEntropy, FeatureRegression, Objective
from training.optim import Optimizers
from training.options import add_data, add_layers, add_split, add_target, positive, serve_config, torch_device
from training.progress import Progress
from training.recipe import Recipe, add_recipe, recipe_from
from training.target import TargetFolder
from training.trainer import Trainer
from training.vocabulary import DraftVocabulary

HASS_TOP = 10  # tokens of the target's that HASS weights once more
POSITIONS = 8192  # rotary table; draft steps reach a little past the longest conversation


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, help="the run's folder")
    parser.add_argument("--features", type=Path, help="what `capture` wrote; without: on the fly from --data")
    parser.add_argument("--resume", action="store_true", help="continue the run in --out")
    parser.add_argument("--save-minutes", type=float, default=5.0, help="between checkpoints")
    parser.add_argument("--eval-every", type=positive, default=200, metavar="STEPS")
    parser.add_argument("--eval-conversations", type=positive, default=20)
    add_target(parser)
    add_data(parser, required=False)
    add_layers(parser)
    add_split(parser)
    add_recipe(parser)


def run(options: Namespace) -> None:
    torch.set_num_threads(options.threads)
    target = TargetFolder.open(serve_config(options))
    material = load_material(options, target)
    recipe = recipe_from(options, data=_digest(material.text.train))
    _claim(options.out, recipe, options.resume)
    trained, trainer, borrowed = _prepare(recipe, target, material, torch_device(options))
    if options.resume:
        trainer.restore(Checkpoint.load(options.out))
    _announce(recipe, material, trained, trainer)
    held_out = [c for c in material.text.held_out if c.temperature == 0][: options.eval_conversations]
    monitor = _Monitor(trained, borrowed, held_out, material.source, max(recipe.draft_steps, 4))
    _loop(options, trainer, monitor, recipe.draft_steps)
    if trainer.next_step == trainer.total_steps:
        trained.save(options.out / "head")
        print(f"the head is in {options.out / 'head'}")


def _claim(out: Path, recipe: Recipe, resume: bool) -> None:
    """A folder holds one run; going on with it must be asked for, and must be the same run."""
    exists = (out / CHECKPOINT).exists()
    if resume and not exists:
        raise TrainingError(f"{out} holds no checkpoint to resume from.")
    if exists and not resume:
        raise TrainingError(f"{out} already holds a run: --resume continues it, another --out starts anew.")
    if resume:
        recipe.check_same(out)
        return
    out.mkdir(parents=True, exist_ok=True)
    recipe.save(out)


class _Prepared(NamedTuple):
    trained: TrainedHead
    trainer: Trainer
    borrowed: Borrowed


def _prepare(recipe: Recipe, target: TargetFolder, material: Material, device: torch.device) -> _Prepared:
    """Vocabulary, an initial head on the device, and the loop around it."""
    trained = _initial_head(recipe, target, material)
    trained.head.to(device)
    borrowed = Borrowed.load(target, trained.vocabulary, recipe.compute_dtype, device)
    trainer = Trainer(
        trained,
        _objective(recipe, borrowed),
        material.text.train,
        material.source,
        recipe.loop(device),
        lambda steps: Optimizers(trained.head, recipe.optim(), steps),
    )
    return _Prepared(trained, trainer, borrowed)


def _initial_head(recipe: Recipe, target: TargetFolder, material: Material) -> TrainedHead:
    """From --init, or random with lm_head's rows taken from the target's."""
    if recipe.init:
        return TrainedHead.load(Path(recipe.init), target.final_norm(), POSITIONS)
    a = target.architecture
    size = min(recipe.draft_vocab_size, a.vocab_size)
    vocabulary = DraftVocabulary.most_frequent(material.text.train, size, a.vocab_size)
    layers = material.layers if recipe.fusion else (a.num_layers,)
    config = HeadConfig.for_target(recipe.kind, a, target.config, layers, len(vocabulary))
    torch.manual_seed(recipe.seed)
    head = build_head(config, target.final_norm(), POSITIONS)
    if isinstance(head, Eagle3Head):
        with torch.no_grad():
            head.lm_head.weight.copy_(target.output_rows(vocabulary.token_ids))
    return TrainedHead(head, vocabulary)


def _objective(recipe: Recipe, borrowed: Borrowed) -> Objective:
    if recipe.method == "eagle3":
        return CrossEntropy(borrowed, recipe.draft_steps)
    return FeatureRegression(borrowed, recipe.draft_steps, HASS_TOP if recipe.method == "hass" else 0)


def _announce(recipe: Recipe, material: Material, trained: TrainedHead, trainer: Trainer) -> None:
    text = material.text
    tokens = sum(c.num_response for c in text.train)
    parameters = sum(p.numel() for p in trained.head.parameters())
    print(
        f"{recipe.method} head of {parameters / 1e6:.1f} M parameters; {len(text.train)} conversations with "
        f"{tokens} response tokens ({len(text.held_out)} conversations held out); draft vocabulary of "
        f"{len(trained.vocabulary)} covers {trained.vocabulary.coverage(text.train):.1%} of them; "
        f"{trainer.total_steps} steps"
    )


@dataclass(slots=True)
class _Monitor:
    """Measures the head on held-out text while it trains."""

    trained: TrainedHead
    borrowed: Borrowed
    held_out: list[Conversation]
    source: Source
    steps: int

    def show(self, step: int) -> None:
        judge = Judge.of(self.trained.head, self.borrowed, self.trained.vocabulary)
        rates = judge.measure(self.held_out, self.source, self.steps).rates
        tqdm.write(f"step {step}: held-out acceptance {' '.join(f'{rate:.3f}' for rate in rates)}")


def _loop(options: Namespace, trainer: Trainer, monitor: _Monitor, draft_steps: int) -> None:
    progress = Progress(options.out / "log.csv", trainer.total_steps, trainer.next_step, draft_steps)
    saved = time.monotonic()
    with _stop_signals() as stop:
        for report in trainer.run():
            progress.report(report)
            if trainer.next_step % options.eval_every == 0:
                monitor.show(trainer.next_step)
            if stop.wanted:
                break
            if time.monotonic() - saved > 60 * options.save_minutes:
                trainer.checkpoint().save(options.out)
                saved = time.monotonic()
    progress.close()
    trainer.checkpoint().save(options.out)
    monitor.show(trainer.next_step)
    if trainer.next_step < trainer.total_steps:
        print(f"stopped after step {trainer.next_step}; --resume continues")


@dataclass(slots=True)
class _Stop:
    wanted: bool = False


@contextmanager
def _stop_signals() -> Iterator[_Stop]:
    """SIGINT and SIGTERM end the run after the step in progress, with a checkpoint."""
    stop = _Stop()

    def want(*_: object) -> None:
        stop.wanted = True

    earlier = {number: signal.signal(number, want) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _digest(conversations: Sequence[Conversation]) -> str:
    return hashlib.blake2b("".join(c.digest for c in conversations).encode(), digest_size=8).hexdigest()
