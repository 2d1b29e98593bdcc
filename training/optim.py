"""Muon for matrices, AdamW for the rest, under one warm-up and cosine."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim import AdamW, Optimizer


@dataclass(frozen=True, slots=True)
class OptimSettings:
    """muon_lr 0 leaves the matrices to AdamW as well."""

    lr: float
    muon_lr: float
    weight_decay: float
    warmup: float  # share of all steps
    clip: float


class Optimizers:
    """The optimizers of a head, stepped together."""

    def __init__(self, head: nn.Module, settings: OptimSettings, total_steps: int) -> None:
        self._settings, self._total = settings, total_steps
        self._parameters = [p for p in head.parameters() if p.requires_grad]
        matrices, rest = _groups(head, settings.muon_lr > 0)
        adam = AdamW(rest, lr=settings.lr, betas=(0.9, 0.95), weight_decay=settings.weight_decay)
        self._optimizers: list[Optimizer] = [adam]
        if matrices:
            decay = settings.weight_decay
            self._optimizers.append(torch.optim.Muon(matrices, lr=settings.muon_lr, weight_decay=decay))
        self._base = [group["lr"] for optimizer in self._optimizers for group in optimizer.param_groups]

    def step(self, step: int) -> float:
        """Clip, apply step number `step` (from 0) and clear gradients. Returns the norm before clipping."""
        norm = nn.utils.clip_grad_norm_(self._parameters, self._settings.clip)
        factor = self.factor(step)
        groups = [group for optimizer in self._optimizers for group in optimizer.param_groups]
        for group, base in zip(groups, self._base, strict=True):
            group["lr"] = base * factor
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return float(norm)

    def factor(self, step: int) -> float:
        """Of the peak rate: up linearly, then down a cosine to zero."""
        warmup = max(round(self._settings.warmup * self._total), 1)
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(self._total - warmup, 1)))

    def state_dict(self) -> list[dict[str, object]]:
        return [optimizer.state_dict() for optimizer in self._optimizers]

    def load_state_dict(self, state: list[dict[str, object]]) -> None:
        for optimizer, part in zip(self._optimizers, state, strict=True):
            optimizer.load_state_dict(part)


def _groups(head: nn.Module, muon: bool) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Matrices for Muon, and the rest; lm_head is a table of tokens, not a map between spaces."""
    matrices: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, parameter in head.named_parameters():
        (matrices if muon and parameter.ndim == 2 and name != "lm_head.weight" else rest).append(parameter)
    return matrices, rest
