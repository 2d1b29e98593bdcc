"""What the step-time model starts from: forwards of a few sizes, timed before the first request."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from pathlib import Path

import numpy as np
import torch

from serving.engine.batch import Batch, Packer
from serving.engine.placement import Placement, machine_key, remember
from serving.engine.runner import ModelRunner
from serving.engine.scheduler import Decode, Prefill, Scheduler, StepPlan
from serving.engine.sequence import Sequence
from serving.models.architecture import Architecture
from serving.models.linear import LinearOps
from serving.models.parallel import ParallelLinearOps
from serving.spec.cost import ForwardProfile
from serving.spec.tree import ROOT, DraftTree
from serving.types import GenerationRequest, SamplingParams

log = logging.getLogger(__name__)

BUDGET_S = 6.0  # larger forwards than can be timed in this time are extrapolated
REPEATS = 3
ROWS_PER_SEQUENCE = 8
CONTEXT = 1024


def step_profile(
    cache_dir: Path,
    architecture: Architecture,
    placement: Placement,
    runner: ModelRunner,
    packer: Packer,
    scheduler: Scheduler,
) -> ForwardProfile:
    """Measured once per model shape, machine, dtype, number of threads and of ranks. Changes nothing that is
    cached. architecture: this rank's part."""
    sizes = (scheduler.max_num_seqs, scheduler.max_num_batched_tokens, scheduler.max_model_len)
    parts = (
        machine_key(architecture, [placement]),
        *_ways(runner.decoder.ops),
        str(placement.device),
        sizes,
        runner.features is not None,
    )
    name = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    path = cache_dir / "step_time" / f"{name}.json"
    try:
        return ForwardProfile.from_json(json.loads(path.read_text()))
    except FileNotFoundError:
        pass
    started = time.perf_counter()
    profile = _Profiler(runner, packer, scheduler).measure()
    log.info("timed forwards of up to %d rows in %.1f s", profile.rows[-1], time.perf_counter() - started)
    try:
        remember(path, json.dumps(profile.to_json()))
    except OSError as error:  # a cache folder that cannot be written costs only the memory
        log.warning("the profile of step times is not kept: %s", error)
    return profile


def _ways(ops: LinearOps) -> tuple[str, ...]:
    """Torch has two ways to compute; ranks wait for each other."""
    if isinstance(ops, ParallelLinearOps):
        return (*_ways(ops.inner), f"{ops.size} ranks")
    return (type(ops).__name__,)


class _Profiler:
    def __init__(self, runner: ModelRunner, packer: Packer, scheduler: Scheduler) -> None:
        self._runner, self._packer, self._scheduler = runner, packer, scheduler

    @torch.inference_mode()
    def measure(self) -> ForwardProfile:
        started = time.perf_counter()
        rows, decode, prefill = [], [], []
        for size in _sizes(self._most_rows()):
            rows.append(size)
            decode.append(self._time(self._decodes(size, 0)))
            prefill.append(self._time(self._prompt(size)))
            if len(rows) >= 2 and time.perf_counter() - started > BUDGET_S:
                break
        return ForwardProfile(tuple(rows), tuple(decode), tuple(prefill), *self._context_costs())

    def _most_rows(self) -> int:
        """Of a step whose sequences are as many and as long as they may be."""
        limits = self._scheduler
        return min(limits.max_num_batched_tokens, limits.max_num_seqs * (limits.max_model_len - 1))

    def _context_costs(self) -> tuple[float, float]:
        """Seconds of a token of context, alone and with each row, by forwards that differ in nothing else."""
        context = min(CONTEXT, self._scheduler.max_model_len - ROWS_PER_SEQUENCE - 1)
        single, tree = (
            (self._time(self._decodes(rows, context)) - self._time(self._decodes(rows, 0))) / context
            for rows in (1, ROWS_PER_SEQUENCE)
        )
        per_row = max((tree - single) / (ROWS_PER_SEQUENCE - 1), 0.0)
        return max(single - per_row, 0.0), per_row

    def _time(self, batch: Batch) -> float:
        """Seconds of a forward: the least of a few, which a busy machine disturbs least."""
        batch.slots[:] = self._packer.scratch_slot
        return min(self._forward_s(batch) for _ in range(REPEATS))

    def _forward_s(self, batch: Batch) -> float:
        started = time.perf_counter()
        self._runner.forward(batch)
        if self._runner.device.type == "cuda":
            torch.cuda.synchronize(self._runner.device)
        return time.perf_counter() - started

    def _decodes(self, rows: int, context: int) -> Batch:
        """Chains of up to ROWS_PER_SEQUENCE rows, all wanted, each behind its context."""
        count = min(-(-rows // ROWS_PER_SEQUENCE), self._scheduler.max_num_seqs)
        shares = [len(part) for part in np.array_split(np.arange(rows), count)]
        sequences = [self._sequence(i, context + 1, share, shares[0]) for i, share in enumerate(shares)]
        for sequence in sequences:
            sequence.num_computed = context
        trees = [_chain(seq, share - 1) for seq, share in zip(sequences, shares, strict=True)]
        decodes = tuple(Decode(seq, len(tree)) for seq, tree in zip(sequences, trees, strict=True))
        return self._packer.pack(StepPlan(decodes, (), ()), trees)

    def _prompt(self, rows: int) -> Batch:
        """One chunk that wants a single row of logits, or as many as a context has room for."""
        length = min(rows, self._scheduler.max_model_len - 1)
        chunks = [
            Prefill(self._sequence(i, size, 0, size), 0, size) for i, size in enumerate(_pieces(rows, length))
        ]
        return self._packer.pack(StepPlan((), tuple(chunks), ()), [])

    def _sequence(self, index: int, tokens: int, more: int, most: int) -> Sequence:
        """A sequence with room for `more` rows; it reads what happens to be in these blocks."""
        request = GenerationRequest("profile", (0,) * tokens, SamplingParams(max_tokens=1))
        sequence = Sequence.create(index, request)
        blocks = self._scheduler.blocks
        count, stride = blocks.blocks_for(tokens + more), blocks.blocks_for(tokens + most)
        sequence.block_table = [(index * stride + i) % blocks.num_blocks for i in range(count)]
        return sequence


def _sizes(most: int) -> list[int]:
    sizes = [1, 2, 4]
    while sizes[-1] * 2 < most:
        sizes += [sizes[-1] * 2, sizes[-1] * 3]
    return sorted({*(size for size in sizes if size < most), most})


def _pieces(rows: int, length: int) -> list[int]:
    """`rows` in pieces of at most `length`."""
    return [min(length, rows - start) for start in range(0, rows, length)]


def _chain(seq: Sequence, nodes: int) -> DraftTree:
    parents = np.arange(ROOT, ROOT + nodes)
    return DraftTree.build(seq.seq_id, len(seq.token_ids), np.zeros(nodes), parents, np.zeros(nodes))
