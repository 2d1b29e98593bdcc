"""The same loop on several processes or machines: Ray Train runs it, Ray Data brings the text.

Features come from a store that every machine can read, or from each worker's own copy of the target. The
run's folder must be shared too. Only `--workers` imports this module, and with it Ray.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import ray
import torch
from ray import train
from ray.data import DataIterator, Dataset
from ray.train import DataConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

from training.checkpoint import Checkpoint
from training.collective import Workers
from training.data import Conversation
from training.job import Job, run_job
from training.material import Material, open_source
from training.options import serve_config
from training.plan import Plan
from training.target import TargetFolder


class _Work(NamedTuple):
    job: Job
    material: Material


def run_workers(job: Job, material: Material, plan: Plan) -> None:
    """Train with as many processes as --workers says; raises what ended a worker."""
    options, workers = job.options, job.recipe.workers
    if not ray.is_initialized():
        ray.init(include_dashboard=False)
    first = Checkpoint.load(options.out).step if options.resume else 0
    gpu = options.device == "cuda"
    TorchTrainer(
        _run_worker,
        train_loop_config={"work": _Work(job, material)},
        torch_config=TorchConfig(backend="nccl" if gpu else "gloo"),
        scaling_config=ScalingConfig(
            num_workers=workers, use_gpu=gpu, resources_per_worker={"CPU": options.cpus_per_worker}
        ),
        datasets={_name(rank): _dataset(plan, first, rank, workers) for rank in range(workers)},
        # Each worker reads its own data set, whole and in order: the plan says what a step consists of.
        dataset_config=DataConfig(datasets_to_split=[]),
    ).fit()


def _run_worker(config: dict[str, Any]) -> None:
    work: _Work = config["work"]
    job, rank = work.job, train.get_context().get_world_rank()
    torch.set_num_threads(job.options.threads)
    target = TargetFolder.open(serve_config(job.options))
    source = open_source(job.options, target, work.material)
    text = train.get_dataset_shard(_name(rank))

    def shares(first_step: int) -> Iterator[list[Conversation]]:
        return _shares(text, range(first_step, job.total_steps))

    run_job(job, target, source, Workers(), shares, rank)


def _name(rank: int) -> str:
    return f"worker-{rank}"


def _dataset(plan: Plan, first_step: int, rank: int, workers: int) -> Dataset:
    """One row per conversation, in the order of the worker's steps."""
    rows = [
        {
            "step": step,
            "token_ids": conversation.token_ids.tolist(),
            "prompt_len": conversation.prompt_len,
            "temperature": conversation.temperature,
        }
        for step, share in enumerate(plan.shares(first_step, rank, workers), start=first_step)
        for conversation in share
    ]
    return ray.data.from_items(rows, override_num_blocks=1)


def _shares(text: DataIterator, steps: range) -> Iterator[list[Conversation]]:
    """Rows by step; a step without rows is an empty share, for the others wait for this worker's sums."""
    rows = iter(text.iter_rows())
    row = next(rows, None)
    for step in steps:
        share = []
        while row is not None and row["step"] == step:
            token_ids = np.asarray(row["token_ids"], np.int32)
            share.append(Conversation(token_ids, int(row["prompt_len"]), float(row["temperature"])))
            row = next(rows, None)
        yield share
    assert row is None
