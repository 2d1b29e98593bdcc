"""The training loop: one optimizer step after the other, resumable between any two."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from training.batch import Batch, Example, pack
from training.capture import Source
from training.checkpoint import Checkpoint
from training.collective import Collective, sum_gradients
from training.data import Conversation
from training.export import TrainedHead
from training.losses import StepSums
from training.objective import Objective
from training.optim import Optimizers
from training.plan import group
from training.progress import StepReport


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """micro_tokens: of one forward; bounds the memory. draft_steps: of training-time test.

    deep_share: of the conversations of a step; the others are drafted one step deep, which costs a fraction.
    Each draft step's loss is a mean over those that reach it, so its weight stays the same.
    step_decay: the weight of draft step i is step_decay ** i.
    """

    micro_tokens: int
    draft_steps: int
    deep_share: float
    step_decay: float
    seed: int
    device: torch.device


class Trainer:
    """A head, its optimizers, and the step that comes next. Every worker of a run has one."""

    def __init__(
        self,
        trained: TrainedHead,
        objective: Objective,
        source: Source,
        optimizers: Optimizers,
        settings: LoopSettings,
        collective: Collective,
    ) -> None:
        self._trained, self._objective, self._source = trained, objective, source
        self._optimizers, self._settings, self._collective = optimizers, settings, collective
        self.next_step = 0

    def run(self, shares: Iterable[Sequence[Conversation]]) -> Iterator[StepReport]:
        """One step for each share: this worker's part of the step's text."""
        for share in shares:
            yield self._step(share)

    def checkpoint(self) -> Checkpoint:
        head = self._trained.head
        return Checkpoint(
            self.next_step,
            head.state_dict(),
            self._optimizers.state_dict(),
            head.config.to_json(),
            self._trained.vocabulary.token_ids,
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        self._trained.head.load_state_dict(checkpoint.head)
        self._optimizers.load_state_dict(checkpoint.optimizers)
        self.next_step = checkpoint.step

    def _step(self, share: Sequence[Conversation]) -> StepReport:
        started, step, settings = time.perf_counter(), self.next_step, self._settings
        batches = self._batches(share)
        counts = self._sum([self._objective.count(batch).float() for batch in batches])
        decay = settings.step_decay ** torch.arange(settings.draft_steps, device=settings.device)
        scale = decay / counts.clamp(min=1)
        # Numbered by step, so that a resumed run draws the same numbers.
        chance = torch.Generator().manual_seed(hash((settings.seed, step)))
        head = self._trained.head
        sums = [self._objective.backward(head, batch, scale[: batch.steps], chance) for batch in batches]
        sum_gradients(head.parameters(), self._collective)
        norm = self._optimizers.step(step)
        self.next_step += 1
        totals = self._totals(batches, sums)
        return StepReport(
            step=step,
            loss=float((totals.loss * scale).sum() / decay.sum()),
            acceptance=tuple((totals.hits / counts.clamp(min=1)).tolist()),
            tokens=totals.tokens,
            seconds=time.perf_counter() - started,
            lr_factor=self._optimizers.factor(step),
            grad_norm=norm,
        )

    def _batches(self, share: Sequence[Conversation]) -> list[Batch]:
        deep = [c for c in share if self._is_deep(c)]
        shallow = [c for c in share if not self._is_deep(c)]
        parts = ((deep, self._settings.draft_steps), (shallow, 1))
        return [self._pack(part, steps) for text, steps in parts for part in self._micro(text)]

    def _is_deep(self, conversation: Conversation) -> bool:
        """By chance, the same whichever worker the conversation falls to."""
        key = f"{self._settings.seed}/{self.next_step}/{conversation.digest}".encode()
        draw = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest()) / 2**64
        return draw < self._settings.deep_share

    def _micro(self, share: Sequence[Conversation]) -> list[list[Conversation]]:
        groups = group([len(c.token_ids) for c in share], self._settings.micro_tokens)
        return [[share[index] for index in part] for part in groups]

    def _pack(self, conversations: list[Conversation], steps: int) -> Batch:
        examples = [Example(c, self._source.captured(c)) for c in conversations]
        return pack(examples, steps).to(self._settings.device)

    def _totals(self, batches: list[Batch], sums: list[StepSums]) -> _Totals:
        tokens = torch.tensor(sum(batch.num_chains for batch in batches), dtype=torch.float32)
        self._collective.sum(tokens)
        loss = self._sum([part.loss.detach() for part in sums])
        return _Totals(loss, self._sum([part.hits for part in sums]), int(tokens))

    def _sum(self, parts: list[Tensor]) -> Tensor:
        """[S], over micro-batches (possibly none, or less deep) and workers."""
        total = torch.zeros(self._settings.draft_steps, device=self._settings.device)
        for part in parts:
            total[: len(part)] += part
        self._collective.sum(total)
        return total


@dataclass(frozen=True, slots=True)
class _Totals:
    """Of one step over all workers. loss, hits: [S]."""

    loss: Tensor
    hits: Tensor
    tokens: int
