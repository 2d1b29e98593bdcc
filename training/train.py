"""`train`: from features to a head."""

from __future__ import annotations

import hashlib
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

import torch

from training.checkpoint import NAME as CHECKPOINT
from training.collective import Alone
from training.data import Conversation, limited
from training.errors import TrainingError
from training.export import read_vocabulary
from training.job import Job, run_job
from training.material import Material, load_material, open_source
from training.options import add_data, add_layers, add_split, add_target, positive, serve_config
from training.plan import Plan
from training.recipe import Recipe, add_recipe, recipe_from
from training.target import TargetFolder
from training.vocabulary import DraftVocabulary


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, help="the run's folder")
    parser.add_argument("--features", type=Path, help="what `capture` wrote; without: on the fly from --data")
    parser.add_argument("--resume", action="store_true", help="continue the run in --out")
    parser.add_argument("--cpus-per-worker", type=float, default=1, help="what Ray reserves, with --workers")
    parser.add_argument("--save-minutes", type=float, default=5.0, help="between checkpoints")
    parser.add_argument("--eval-every", type=positive, default=200, metavar="STEPS")
    parser.add_argument("--eval-conversations", type=positive, default=20)
    add_target(parser)
    add_data(parser, required=False)
    add_layers(parser)
    add_split(parser)
    parser.add_argument(
        "--train-tokens",
        type=positive,
        metavar="N",
        help="learn from about so many response tokens, part of what a larger N learns from; the draft "
        "vocabulary is that of all of the text",
    )
    add_recipe(parser)


def run(options: Namespace) -> None:
    torch.set_num_threads(options.threads)
    target = TargetFolder.open(serve_config(options))
    material = load_material(options, target)
    text = limited(material.text.train, options.train_tokens)
    recipe = recipe_from(options, data=_digest(text))
    plan = Plan(text, recipe.epochs, recipe.batch_tokens * recipe.workers, recipe.seed)
    if not plan.total_steps:
        raise TrainingError("all of the text is held out: there is nothing to train on.")
    job = _job(options, recipe, target, material, plan)
    _claim(options.out, recipe, options.resume)
    _announce(job, target, text, held_out=len(material.text.held_out))
    if options.workers == 1:
        run_job(job, target, open_source(options, target, material), Alone(), plan.shares)
    else:
        from training.distributed import run_workers

        run_workers(job, material, plan)


def _job(options: Namespace, recipe: Recipe, target: TargetFolder, material: Material, plan: Plan) -> Job:
    held_out = [c for c in material.text.held_out if c.temperature == 0][: options.eval_conversations]
    vocabulary = _vocabulary(recipe, target, material)
    return Job(options, recipe, vocabulary.token_ids, material.layers, held_out, plan.total_steps)


def _vocabulary(recipe: Recipe, target: TargetFolder, material: Material) -> DraftVocabulary:
    size = target.architecture.vocab_size
    if recipe.init:
        return read_vocabulary(Path(recipe.init))
    return DraftVocabulary.most_frequent(material.text.train, min(recipe.draft_vocab_size, size), size)


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


def _announce(job: Job, target: TargetFolder, text: Sequence[Conversation], held_out: int) -> None:
    vocabulary = DraftVocabulary(job.vocabulary, target.architecture.vocab_size)
    print(
        f"{job.recipe.method} head for {target.folder.name}: {len(text)} conversations with "
        f"{sum(c.num_response for c in text)} response tokens ({held_out} held out); "
        f"a draft vocabulary of {len(vocabulary)} covers {vocabulary.coverage(text):.1%} of them; "
        f"{job.total_steps} steps"
    )


def _digest(conversations: Sequence[Conversation]) -> str:
    return hashlib.blake2b("".join(c.digest for c in conversations).encode(), digest_size=8).hexdigest()
