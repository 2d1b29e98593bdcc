"""Attention of training-time test: a chain sees the real past, then its own steps, nothing of other chains.

Keys of step 0 are causal; each later step adds to a chain only its own diagonal. Three rows, two steps, a
chain from each row (x: visible):

                    step 0 keys   step 1 keys
                     0   1   2     0   1   2
    step 0, row 0    x   .   .     .   .   .
            row 1    x   x   .     .   .   .
            row 2    x   x   x     .   .   .
    step 1, row 0    x   .   .     x   .   .
            row 1    x   x   .     .   x   .
            row 2    x   x   x     .   .   x

So a step costs one product against the step-0 keys, and one number per chain and earlier step; both meet in
one softmax. Query heads that share a key head are folded into rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from training.batch import Span


def chain_attention(
    query: Tensor, keys: Tensor, values: Tensor, own: Sequence[tuple[Tensor, Tensor]], spans: Sequence[Span]
) -> Tensor:
    """One step of all chains.

    query: [R, H, D]. keys, values: step 0's, [T, KV, D]. own: (key, value) of steps 1 .. this one, each
    [R, KV, D]. Returns [R, H * D].
    """
    chains, heads, dim = query.shape
    grouped = query.unflatten(1, (keys.shape[1], -1)) * dim**-0.5  # [R, KV, G, D]
    parts = [
        _span_attention(
            grouped[span.chains],
            keys[span.rows],
            values[span.rows],
            [(key[span.chains], value[span.chains]) for key, value in own],
            span.first,
        )
        for span in spans
    ]
    return torch.cat(parts).view(chains, heads * dim)


def _span_attention(
    query: Tensor, keys: Tensor, values: Tensor, own: Sequence[tuple[Tensor, Tensor]], first: int
) -> Tensor:
    """query: [R, KV, G, D], scaled. keys, values: [T, KV, D]. Returns [R, KV, G, D]."""
    chains, kv_heads, group, dim = query.shape
    rows = len(keys)
    folded = query.permute(1, 2, 0, 3).reshape(kv_heads, group * chains, dim)
    past = folded @ keys.permute(1, 2, 0)  # [KV, G * R, T]
    hidden = torch.ones(chains, rows, dtype=torch.bool, device=query.device).triu(first + 1)
    past = past.view(kv_heads, group, chains, rows).masked_fill(hidden, float("-inf"))
    # [KV, G, R, 1] each
    diagonals = [(query * key[:, :, None]).sum(-1).permute(1, 2, 0)[..., None] for key, _ in own]
    weights = torch.cat([past, *diagonals], dim=-1).softmax(-1, dtype=torch.float32).to(query.dtype)
    folded = weights[..., :rows].reshape(kv_heads, group * chains, rows) @ values.transpose(0, 1)
    context = folded.view(kv_heads, group, chains, dim).permute(2, 0, 1, 3)
    for step, (_, value) in enumerate(own):
        context = context + weights[..., rows + step].permute(2, 0, 1)[..., None] * value[:, :, None]
    return context
