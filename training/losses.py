"""Cross-entropy of drafts against the target's own distribution, without ever holding all logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 512  # target rows whose logits, and those of the steps that meet them, exist at the same time
BLOCK = 64  # rows of element-wise work that stay in a core's cache


class TargetShape(NamedTuple):
    """`whole` times the target's distribution, plus (HASS) its `top` likeliest tokens once more."""

    whole: float = 1.0
    top: int = 0


@dataclass(frozen=True, slots=True)
class Targets:
    """What the target says after each chain's position, over the draft vocabulary.

    hidden: [R, d] in the compute dtype, after the final norm.
    output: [draft, d] in the compute dtype, the draft vocabulary's rows of the target's output projection.
    best: [R], draft id of the token that the target likes best; -1 where that is outside the vocabulary.
    shape: how the distribution is weighted.
    """

    hidden: Tensor
    output: Tensor
    best: Tensor
    shape: TargetShape

    def weights(self, rows: slice) -> Tensor:
        """float32 [rows, draft], what -log q is weighted with; `shape.mass` in all if nothing is cut off."""
        p = F.linear(self.hidden[rows], self.output).softmax(-1, dtype=torch.float32)
        if self.shape.top == 0:
            return p if self.shape.whole == 1.0 else p.mul_(self.shape.whole)
        best = p.topk(self.shape.top, dim=-1)
        return p.mul_(self.shape.whole).scatter_add_(1, best.indices, best.values)


class StepSums(NamedTuple):
    """Sums over the positions that count, float32 [S] each. Only `loss` has a gradient."""

    loss: Tensor
    hits: Tensor


def draft_cross_entropy(
    drafts: Tensor, weight: Tensor, targets: Targets, counted: Tensor, scale: Tensor
) -> StepSums:
    """-sum_v w(v) log q(v) over the draft vocabulary, and how often both agree on the best token.

    w are the targets' weights: the target's distribution for EAGLE-3.

    drafts: [S, R, d], input of the output projection; step s of row r is compared with target row r + s.
    weight: [draft, d]. counted: bool [S, R], False where there is no such row, or its best token is outside.
    scale: [S]. Gradients are taken in this pass, those of sum_s scale[s] * loss[s]: call backward on that sum
    and on nothing else.
    """
    loss, hits = _DraftCrossEntropy.apply(drafts, weight, targets, counted, scale)
    return StepSums(loss, hits)


class _DraftCrossEntropy(torch.autograd.Function):
    """Goes by chunks of target rows: a target's softmax is taken once for all the steps that meet it."""

    @staticmethod
    def forward(
        ctx: Any, drafts: Tensor, weight: Tensor, targets: Targets, counted: Tensor, scale: Tensor
    ) -> tuple[Tensor, Tensor]:
        dtype = targets.hidden.dtype
        sums = _Sums(drafts.new_zeros(len(drafts)), drafts.new_zeros(len(drafts)))
        rows, matrix = drafts.to(dtype), weight.to(dtype)
        grad_rows, grad_weight = torch.zeros_like(rows), torch.zeros_like(weight)
        for start in range(0, drafts.shape[1], CHUNK):
            chunk = _Chunk(start, min(start + CHUNK, drafts.shape[1]))
            met = torch.cat([rows[s, chunk.drafts(s)] for s in range(len(rows))])
            logits = F.linear(met, matrix)
            _to_gradients(logits, chunk, targets, counted, scale, sums)
            if ctx.needs_input_grad[1]:
                grad_weight += logits.T @ met
            parts = (logits @ matrix).split([chunk.size(s) for s in range(len(rows))])
            for step, part in enumerate(parts):
                grad_rows[step, chunk.drafts(step)] = part
        ctx.save_for_backward(grad_rows.to(drafts.dtype), grad_weight)
        ctx.mark_non_differentiable(sums.hits)
        return sums.loss, sums.hits

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        grad_rows, grad_weight = ctx.saved_tensors
        return grad_rows, grad_weight, None, None, None


class _Sums(NamedTuple):
    loss: Tensor
    hits: Tensor

    def add(self, step: int, block: StepSums) -> None:
        self.loss[step] += block.loss
        self.hits[step] += block.hits


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Target rows start .. end - 1."""

    start: int
    end: int

    def drafts(self, step: int) -> slice:
        """Rows whose step `step` meets them."""
        return slice(max(self.start - step, 0), max(self.end - step, 0))

    def size(self, step: int) -> int:
        return max(self.end - step, 0) - max(self.start - step, 0)

    def met(self, step: int) -> slice:
        """The target rows that those drafts meet, counted from the chunk's first."""
        return slice(self.end - self.start - self.size(step), self.end - self.start)


def _to_gradients(
    logits: Tensor, chunk: _Chunk, targets: Targets, counted: Tensor, scale: Tensor, sums: _Sums
) -> None:
    """Turn logits [rows of all steps, draft] into their gradients in place, and add to the sums."""
    target = targets.weights(slice(chunk.start, chunk.end))
    mass = target.sum(-1, keepdim=True)
    best = targets.best[chunk.start : chunk.end].clamp(min=0)[:, None]
    for step, part in enumerate(logits.split([chunk.size(s) for s in range(len(counted))])):
        rows, met = chunk.drafts(step), chunk.met(step)
        keep = counted[step, rows, None].float()  # [rows, 1]
        blocks = (tensor.split(BLOCK) for tensor in (part, target[met], mass[met], best[met], keep))
        for z, w, m, b, k in zip(*blocks, strict=True):
            sums.add(step, _block_gradients(z, w, m, b, k, scale[step]))


def _block_gradients(
    logits: Tensor, target: Tensor, mass: Tensor, best: Tensor, keep: Tensor, scale: Tensor
) -> StepSums:
    """Sums of one block. logits, target: [rows, draft]. mass, best, keep: [rows, 1]."""
    z = logits.float()
    q = z.softmax(-1)
    q_best = q.gather(1, best)
    expected = (target[:, None] @ z[:, :, None])[:, 0]  # [rows, 1], sum w z
    normaliser = z.gather(1, best) - q_best.log()  # log sum exp z
    logits.copy_(q.mul_(mass).sub_(target).mul_(keep * scale))
    agreed = z.gather(1, best) >= z.amax(-1, keepdim=True)
    return StepSums(((normaliser * mass - expected) * keep).sum(), (agreed * keep).sum())
