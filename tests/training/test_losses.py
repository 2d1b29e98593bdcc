"""The chunked loss and its hand-taken gradients, against the definition written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from training import losses
from training.losses import Targets, TargetShape, draft_cross_entropy

STEPS, ROWS, WIDTH, DRAFT = 3, 11, 6, 20


def by_definition(
    drafts: Tensor, weight: Tensor, targets: Targets, counted: Tensor
) -> tuple[list[Tensor], list[int]]:
    loss, hits = [], []
    for step in range(STEPS):
        terms, agreed = [drafts.new_zeros(())], 0
        for row in range(ROWS - step):
            if counted[step, row]:
                p = (targets.output @ targets.hidden[row + step]).softmax(0)
                w = targets.shape.whole * p
                if top := targets.shape.top:
                    w = w + torch.where(p >= p.sort(descending=True).values[top - 1], p, 0.0)
                log_q = (weight @ drafts[step, row]).log_softmax(0)
                terms.append(-(w * log_q).sum())
                agreed += int(log_q.argmax() == targets.best[row + step])
        loss.append(torch.stack(terms).sum())
        hits.append(agreed)
    return loss, hits


@pytest.mark.parametrize("chunk", [4, 512])
@pytest.mark.parametrize("shape", [TargetShape(), TargetShape(whole=0.1, top=3)])
def test_loss_hits_and_gradients(monkeypatch: pytest.MonkeyPatch, chunk: int, shape: TargetShape) -> None:
    monkeypatch.setattr(losses, "CHUNK", chunk)
    monkeypatch.setattr(losses, "BLOCK", 3)
    torch.manual_seed(0)
    drafts = torch.randn(STEPS, ROWS, WIDTH, requires_grad=True)
    weight = torch.randn(DRAFT, WIDTH, requires_grad=True)
    hidden, output = torch.randn(ROWS, WIDTH), torch.randn(DRAFT, WIDTH)
    targets = Targets(hidden, output, (hidden @ output.T).argmax(-1), shape)
    counted = torch.rand(STEPS, ROWS) < 0.7
    for step in range(STEPS):
        counted[step, ROWS - step :] = False
    scale = torch.tensor([1.0, 0.8, 0.3])

    sums = draft_cross_entropy(drafts, weight, targets, counted, scale)
    (sums.loss * scale).sum().backward()
    ours = drafts.grad, weight.grad
    drafts.grad = weight.grad = None
    loss, hits = by_definition(drafts, weight, targets, counted)
    (torch.stack(loss) * scale).sum().backward()

    torch.testing.assert_close(sums.loss.detach(), torch.stack(loss).detach())
    assert sums.hits.tolist() == hits
    for mine, plain in zip(ours, (drafts.grad, weight.grad), strict=True):
        torch.testing.assert_close(mine, plain, rtol=1e-4, atol=1e-5)
