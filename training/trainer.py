"""The training loop: one optimizer step after the other, resumable between any two."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from training.batch import Batch, Example, pack
from training.capture import Source
from training.checkpoint import Checkpoint
from training.data import Conversation
from training.export import TrainedHead
from training.objective import Objective
from training.optim import Optimizers
from training.plan import group, plan_epoch
from training.progress import StepReport


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """batch_tokens: of one optimizer step. micro_tokens: of one forward; bounds the memory.

    draft_steps: of training-time test. step_decay: the weight of step i is step_decay ** i.
    """

    epochs: int
    batch_tokens: int
    micro_tokens: int
    draft_steps: int
    step_decay: float
    seed: int
    device: torch.device


class Trainer:
    """A head, its optimizers and the order of the data."""

    def __init__(
        self,
        trained: TrainedHead,
        objective: Objective,
        conversations: Sequence[Conversation],
        source: Source,
        settings: LoopSettings,
        make_optimizers: Callable[[int], Optimizers],
    ) -> None:
        self._trained, self._objective = trained, objective
        self._conversations, self._source, self._settings = conversations, source, settings
        self._lengths = [len(c.token_ids) for c in conversations]
        self._plan = [group for epoch in range(settings.epochs) for group in self._plan_epoch(epoch)]
        self.optimizers = make_optimizers(len(self._plan))
        self.next_step = 0

    @property
    def total_steps(self) -> int:
        return len(self._plan)

    def run(self) -> Iterator[StepReport]:
        """Every remaining step."""
        while self.next_step < self.total_steps:
            yield self._step()

    def checkpoint(self) -> Checkpoint:
        head = self._trained.head
        return Checkpoint(
            self.next_step,
            head.state_dict(),
            self.optimizers.state_dict(),
            head.config.to_json(),
            self._trained.vocabulary.token_ids,
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        self._trained.head.load_state_dict(checkpoint.head)
        self.optimizers.load_state_dict(checkpoint.optimizers)
        self.next_step = checkpoint.step

    def _plan_epoch(self, epoch: int) -> list[list[int]]:
        return plan_epoch(self._lengths, self._settings.batch_tokens, self._settings.seed, epoch)

    def _step(self) -> StepReport:
        started, step, settings = time.perf_counter(), self.next_step, self._settings
        batches = [self._pack(part) for part in self._micro(self._plan[step])]
        counts = torch.stack([self._objective.count(batch) for batch in batches]).sum(0)  # [S]
        decay = settings.step_decay ** torch.arange(settings.draft_steps, device=settings.device)
        scale = decay / counts.clamp(min=1)
        chance = torch.Generator().manual_seed(hash((settings.seed, step)))
        sums = [self._objective.backward(self._trained.head, batch, scale, chance) for batch in batches]
        norm = self.optimizers.step(step)
        self.next_step += 1
        loss = sum((part.loss.detach() * scale).sum() for part in sums)
        hits = torch.stack([part.hits for part in sums]).sum(0) / counts.clamp(min=1)
        return StepReport(
            step=step,
            loss=float(loss) / float(decay.sum()),
            acceptance=tuple(hits.tolist()),
            tokens=sum(batch.num_chains for batch in batches),
            seconds=time.perf_counter() - started,
            lr_factor=self.optimizers.factor(step),
            grad_norm=norm,
        )

    def _micro(self, indices: list[int]) -> list[list[int]]:
        return group(indices, self._lengths, self._settings.micro_tokens)

    def _pack(self, indices: list[int]) -> Batch:
        conversations = [self._conversations[index] for index in indices]
        examples = [Example(c, self._source.captured(c)) for c in conversations]
        return pack(examples, self._settings.draft_steps).to(self._settings.device)
