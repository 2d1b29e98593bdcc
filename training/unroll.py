"""Training-time test: the head drafts from every position of real text, fed its own hidden states."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from training.attention import chain_attention
from training.batch import Batch
from training.head import Head


def unroll(
    head: Head,
    batch: Batch,
    embeddings: Tensor,
    dtype: torch.dtype,
    noise: Tensor | None = None,
) -> Tensor:
    """Hidden states before the final norm, float32 [S, R, d].

    Tokens are those of the text at every step; only the hidden state recurses (EAGLE-3, section 3.2). Step i
    of a chain stands at rotary position t + i. embeddings: [vocab, d], the target's. noise: [T, d], added to
    the first step's features (EAGLE-1).
    """
    weights = head.weights(dtype)
    # [N, ...]: each token meets several chains and steps, its part is computed once.
    token_part = head.token_part(F.embedding(batch.tokens, embeddings), weights)
    fused = head.fuse(batch.streams, dtype)
    if noise is not None:
        fused = fused + noise
    inputs = head.layer_input(token_part[batch.row_tokens], fused, weights)
    past = head.project_first(inputs, batch.positions, batch.chain_rows)
    context = chain_attention(past.query, past.key, past.value, [], batch.spans)
    hidden = head.layer.finish(inputs.residual[batch.chain_rows], context, weights.layer)

    own: list[tuple[Tensor, Tensor]] = []
    outputs, positions = [hidden], batch.positions[batch.chain_rows]
    for step in range(1, batch.steps):
        inputs = head.layer_input(token_part[batch.chain_tokens[step]], hidden, weights)
        now = head.project(inputs, positions + step)
        own.append((now.key, now.value))
        context = chain_attention(now.query, past.key, past.value, own, batch.spans)
        hidden = head.layer.finish(inputs.residual, context, weights.layer)
        outputs.append(hidden)
    return torch.stack(outputs)
