"""One worker's part of a run: the head, its loop, and what the first worker writes about it."""

from __future__ import annotations

import math
import signal
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from training.acceptance import Judge
from training.capture import Source
from training.checkpoint import Checkpoint
from training.collective import Collective
from training.data import Conversation
from training.errors import TrainingError
from training.export import TrainedHead, build_head
from training.head import Eagle3Head
from training.head_config import HeadConfig
from training.objective import Borrowed, CrossEntropy, FeatureRegression, Objective
from training.optim import Optimizers
from training.options import torch_device
from training.progress import Progress, StepReport
from training.recipe import Recipe
from training.target import TargetFolder
from training.trainer import Trainer
from training.vocabulary import DraftVocabulary

HASS_TOP = 10  # tokens of the target's that HASS weights once more
POSITIONS = 8192  # rotary table; draft steps reach a little past the longest conversation

Shares = Iterable[Sequence[Conversation]]


@dataclass(frozen=True, slots=True)
class Job:
    """What every worker must know; all of it can be sent to another machine.

    vocabulary: int64 [draft]. layers: those whose inputs were captured. held_out: for watching the run.
    """

    options: Namespace
    recipe: Recipe
    vocabulary: Tensor
    layers: tuple[int, ...]
    held_out: list[Conversation]
    total_steps: int


def run_job(
    job: Job,
    target: TargetFolder,
    source: Source,
    collective: Collective,
    shares: Callable[[int], Shares],
    rank: int = 0,
) -> None:
    """Train to the end, or until stopped. shares(step): this worker's part of all steps from that one on."""
    trained = initial_head(job, target)
    device = torch_device(job.options)
    trained.head.to(device)
    recipe = job.recipe
    borrowed = Borrowed.load(target, trained.vocabulary, recipe.compute_dtype, device)
    trainer = Trainer(
        trained,
        _objective(recipe, borrowed),
        source,
        Optimizers(trained.head, recipe.optim(), job.total_steps),
        recipe.loop(device),
        collective,
    )
    if job.options.resume:
        trainer.restore(Checkpoint.load(job.options.out))
    reports = trainer.run(shares(trainer.next_step))
    if rank:
        for _ in reports:
            pass
        return
    _watch(job, trainer, reports, _Monitor(trained, borrowed, job.held_out, source, recipe.draft_steps))
    if trainer.next_step == job.total_steps:
        trained.save(job.options.out / "head")
        print(f"the head is in {job.options.out / 'head'}")


def initial_head(job: Job, target: TargetFolder) -> TrainedHead:
    """From --init, or random with lm_head's rows taken from the target's. The same for every worker."""
    recipe, a = job.recipe, target.architecture
    if recipe.init:
        return TrainedHead.load(Path(recipe.init), target.final_norm(), POSITIONS)
    vocabulary = DraftVocabulary(job.vocabulary, a.vocab_size)
    layers = job.layers if recipe.fusion else (a.num_layers,)
    config = HeadConfig.for_target(recipe.kind, a, target.config, layers, len(vocabulary))
    torch.manual_seed(recipe.seed)
    head = build_head(config, target.final_norm(), POSITIONS)
    if isinstance(head, Eagle3Head):
        with torch.no_grad():
            head.lm_head.weight.copy_(target.output_rows(vocabulary.token_ids))
    return TrainedHead(head, vocabulary)


def _objective(recipe: Recipe, borrowed: Borrowed) -> Objective:
    if recipe.method == "eagle3":
        return CrossEntropy(borrowed)
    return FeatureRegression(borrowed, HASS_TOP if recipe.method == "hass" else 0)


@dataclass(slots=True)
class _Monitor:
    """Measures the head on held-out text while it trains."""

    trained: TrainedHead
    borrowed: Borrowed
    held_out: list[Conversation]
    source: Source
    draft_steps: int

    def show(self, step: int) -> None:
        if not self.held_out:
            return
        judge = Judge.of(self.trained.head, self.borrowed, self.trained.vocabulary)
        rates = judge.measure(self.held_out, self.source, max(self.draft_steps, 4)).rates
        tqdm.write(f"step {step}: held-out acceptance {' '.join(f'{rate:.3f}' for rate in rates)}")


def _watch(job: Job, trainer: Trainer, reports: Iterable[StepReport], monitor: _Monitor) -> None:
    """Run, with progress, checkpoints and measurements; a signal ends the run after the step in progress."""
    options = job.options
    log = options.out / "log.csv"
    progress = Progress(log, job.total_steps, trainer.next_step, job.recipe.draft_steps)
    saved = time.monotonic()
    with _stop_signals() as stop:
        for report in reports:
            progress.report(report)
            if not math.isfinite(report.loss):
                raise TrainingError(
                    f"the loss of step {report.step} is not finite; the last checkpoint is from before: "
                    "lower --lr and --muon-lr, and look for broken features."
                )
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
    if trainer.next_step < job.total_steps:
        print(f"stopped after step {trainer.next_step}; --resume continues")


@dataclass(slots=True)
class _Stop:
    wanted: bool = False


@contextmanager
def _stop_signals() -> Iterator[_Stop]:
    """SIGINT and SIGTERM set `wanted`. Where signals are not ours to handle (a Ray worker), nothing does."""
    stop = _Stop()

    def want(*_: object) -> None:
        stop.wanted = True

    try:
        earlier = {number: signal.signal(number, want) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread
        earlier = {}
    try:
        yield stop
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
