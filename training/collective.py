"""What the workers of a run add up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor, nn


class Collective(Protocol):
    def sum(self, tensor: Tensor) -> None:
        """Replace the tensor by the sum of all workers', in place."""
        ...


class Alone:
    """A run of one worker."""

    def sum(self, tensor: Tensor) -> None:
        return


class Workers:
    """The process group that Ray Train has set up."""

    def sum(self, tensor: Tensor) -> None:
        torch.distributed.all_reduce(tensor)


def sum_gradients(parameters: Iterable[nn.Parameter], collective: Collective) -> None:
    """In one message. A worker without text in this step has no gradients yet: it adds zeros."""
    parameters = list(parameters)
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    if isinstance(collective, Alone):
        return
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    collective.sum(flat)
    parts = flat.split([gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))
