"""What each kind of head is trained for, on one batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from training.batch import Batch
from training.head import Head
from training.losses import StepSums, Targets, TargetShape, draft_cross_entropy
from training.target import TargetFolder
from training.unroll import unroll
from training.vocabulary import DraftVocabulary

NOISE = 0.2  # EAGLE-1's uniform noise on features, whole width
CROSS_ENTROPY_SHARE = 0.1  # of EAGLE-1's loss


@dataclass(frozen=True, slots=True)
class Borrowed:
    """The target's parts that a head uses and training leaves alone, in the compute dtype.

    embeddings: [vocab, d]. final_norm: float32 [d]. output: [draft, d], the draft vocabulary's rows.
    draft_ids: [vocab], the draft id of each token, -1 outside.
    """

    embeddings: Tensor
    final_norm: Tensor
    output: Tensor
    draft_ids: Tensor
    eps: float

    @classmethod
    def load(
        cls, target: TargetFolder, vocabulary: DraftVocabulary, dtype: torch.dtype, device: torch.device
    ) -> Borrowed:
        return cls(
            target.embeddings().to(device, dtype),
            target.final_norm().to(device, torch.float32),
            target.output_rows(vocabulary.token_ids).to(device, dtype),
            vocabulary.index.to(device),
            target.architecture.rms_norm_eps,
        )

    @property
    def dtype(self) -> torch.dtype:
        return self.output.dtype

    def features(self, final: Tensor) -> Tensor:
        """What leaves the target's last layer, after the final norm: float32 [N, d]."""
        return F.rms_norm(final.float(), self.final_norm.shape, self.final_norm, self.eps)

    def counted(self, batch: Batch) -> Tensor:
        """bool [S, R]: the step has something to compare with, and it is in the draft vocabulary."""
        inside = self.draft_ids[batch.best] >= 0
        counted = batch.valid.clone()
        for step in range(len(counted)):
            counted[step, : len(inside) - step] &= inside[step:]
        return counted


class Objective(Protocol):
    def count(self, batch: Batch) -> Tensor:
        """[S], how many positions each of the batch's steps sums its loss over."""
        ...

    def backward(self, head: Head, batch: Batch, scale: Tensor, chance: torch.Generator) -> StepSums:
        """Add the gradients of sum_s scale[s] * loss[s]; loss[s] sums over the counted positions.

        scale: [S] for the batch's own steps.
        """
        ...


@dataclass(frozen=True, slots=True)
class CrossEntropy:
    """EAGLE-3: the target's distribution at every step of the draft."""

    borrowed: Borrowed

    def count(self, batch: Batch) -> Tensor:
        return self.borrowed.counted(batch).sum(-1)

    def backward(self, head: Head, batch: Batch, scale: Tensor, chance: torch.Generator) -> StepSums:
        hidden = unroll(head, batch, self.borrowed.embeddings, self.borrowed.dtype)
        sums = _cross_entropy(self.borrowed, head, hidden, batch, scale, TargetShape())
        (sums.loss * scale).sum().backward()
        return sums


@dataclass(frozen=True, slots=True)
class FeatureRegression:
    """EAGLE-1: the target's next feature, and a little of its distribution. With more steps than one and the
    target's ten likeliest tokens on top it is HASS (arXiv 2408.15766)."""

    borrowed: Borrowed
    top: int

    def count(self, batch: Batch) -> Tensor:
        return self.borrowed.counted(batch).sum(-1)

    def backward(self, head: Head, batch: Batch, scale: Tensor, chance: torch.Generator) -> StepSums:
        noise = torch.rand((len(batch.streams), self.borrowed.output.shape[1]), generator=chance) - 0.5
        hidden = unroll(
            head,
            batch,
            self.borrowed.embeddings,
            self.borrowed.dtype,
            (NOISE * noise).to(batch.streams.device),
        )
        regression = self._regression(hidden, batch)
        shape = TargetShape(CROSS_ENTROPY_SHARE, self.top)
        sums = _cross_entropy(self.borrowed, head, hidden, batch, scale, shape)
        loss = sums.loss + regression
        (loss * scale).sum().backward()
        return StepSums(loss, sums.hits)

    def _regression(self, hidden: Tensor, batch: Batch) -> Tensor:
        """[S], sums over the counted positions of the mean over features."""
        features, counted = self.borrowed.features(batch.final), self.borrowed.counted(batch)
        sums = []
        for step in range(batch.steps):
            compared = batch.num_chains - step
            error = F.smooth_l1_loss(hidden[step, :compared], features[step:], reduction="none").mean(-1)
            sums.append((error * counted[step, :compared]).sum())
        return torch.stack(sums)


def _cross_entropy(
    borrowed: Borrowed, head: Head, hidden: Tensor, batch: Batch, scale: Tensor, shape: TargetShape
) -> StepSums:
    targets = Targets(
        borrowed.features(batch.final).to(borrowed.dtype),
        borrowed.output,
        borrowed.draft_ids[batch.best],
        shape,
    )
    counted = borrowed.counted(batch)
    weight = head.output_weight(borrowed.output)
    return draft_cross_entropy(head.head_input(hidden), weight, targets, counted, scale)
