"""Training-time test in parallel, against drafting from each position on its own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from texts import LAYERS, conversation
from torch import Tensor

from training.batch import Example, pack
from training.data import Conversation
from training.export import build_head
from training.head import Eagle1Head, Eagle3Head, Head
from training.head_config import HeadConfig, Kind
from training.target import Target, TargetFolder
from training.unroll import unroll

STEPS = 3


def plain_step(head: Head, embeds: Tensor, hidden: Tensor) -> Tensor:
    """One causal pass of the head's layer over n positions: [n, d] -> [n, d]."""
    c, attention, mlp = head.config, head.layer.self_attn, head.layer.mlp
    if isinstance(head, Eagle3Head):
        x = torch.cat((head.midlayer.input_layernorm(embeds), head.midlayer.hidden_norm(hidden)), dim=-1)
        residual = hidden
    else:
        assert isinstance(head, Eagle1Head)
        x = residual = head.fc(torch.cat((embeds, hidden), dim=-1))

    def heads(projected: Tensor, count: int) -> Tensor:
        split = projected.view(len(x), count, c.head_dim)
        return split.repeat_interleave(c.num_heads // count, dim=1).transpose(0, 1)

    def rotated(projected: Tensor, count: int) -> Tensor:
        low, high = heads(projected, count).chunk(2, dim=-1)
        angles = torch.outer(torch.arange(len(x)), 10000.0 ** (-torch.arange(0, c.head_dim, 2) / c.head_dim))
        return torch.cat(
            (low * angles.cos() - high * angles.sin(), high * angles.cos() + low * angles.sin()), dim=-1
        )

    context = F.scaled_dot_product_attention(
        rotated(attention.q_proj(x), c.num_heads),
        rotated(attention.k_proj(x), c.num_kv_heads),
        heads(attention.v_proj(x), c.num_kv_heads),
        is_causal=True,
    )
    hidden = residual + attention.o_proj(context.transpose(0, 1).flatten(1))
    inner = head.layer.post_attention_layernorm(hidden)
    return hidden + mlp.down_proj(F.silu(mlp.gate_proj(inner)) * mlp.up_proj(inner))


def drafted(head: Head, text: Conversation, streams: Tensor, embeddings: Tensor, row: int) -> list[Tensor]:
    """What the chain of `row` computes, step by step, as a drafter would."""
    tokens = torch.from_numpy(text.token_ids).long()
    hidden = head.fuse(streams[: row + 1], torch.float32)
    outputs = []
    for step in range(min(STEPS, len(tokens) - 2 - row)):
        fed = embeddings[tokens[1 : row + 2 + step]]
        outputs.append(plain_step(head, fed, hidden)[-1])
        hidden = torch.cat([hidden, outputs[-1][None]])
    return outputs


@pytest.mark.parametrize("kind", ["eagle3", "eagle1"])
@torch.no_grad()
def test_every_chain_is_a_draft_of_its_own(kind: Kind, target: Target, target_folder: TargetFolder) -> None:
    torch.manual_seed(0)
    layers = LAYERS if kind == "eagle3" else ()
    config = HeadConfig.for_target(kind, target_folder.architecture, target_folder.config, layers, 50)
    head = build_head(config, target_folder.final_norm(), 64)
    for name, parameter in head.named_parameters():
        if "norm" in name:
            parameter.uniform_(0.5, 1.5)
    texts = [conversation(1), conversation(2, prompt=1, response=6)]
    examples = [Example(text, target.capture(text, LAYERS)) for text in texts]
    embeddings = target_folder.embeddings().float()
    batch = pack(examples, STEPS)
    ours = unroll(head, batch, embeddings, torch.float32)

    compared = 0
    for example, span in zip(examples, batch.spans, strict=True):
        streams = example.captured.streams
        for chain in range(span.num_chains):
            theirs = drafted(head, example.conversation, streams, embeddings, span.first + chain)
            for step, plain in enumerate(theirs):
                assert batch.valid[step, span.chain_start + chain]
                mine = ours[step, span.chain_start + chain]
                torch.testing.assert_close(mine, plain, rtol=1e-4, atol=1e-4)
                compared += 1
    assert compared == batch.valid.sum() == (8 + 7 + 6) + (5 + 4 + 3)
