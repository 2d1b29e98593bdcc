"""Who sees whom in training-time test, as a literal table; and the values, against plain masked attention."""

from __future__ import annotations

import torch
from torch import Tensor

from training.attention import chain_attention
from training.batch import Span

HEADS, KV_HEADS, DIM = 4, 2, 8


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def visible(output: Tensor, sources: list[Tensor]) -> list[str]:
    """One string per row of `output`, with an x for each row of each source that it depends on."""
    table = []
    for row in output:
        grads = torch.autograd.grad(row.sum(), sources, retain_graph=True, allow_unused=True)
        parts = ["".join(" x"[int(g.abs().sum() > 0)] for g in grad) for grad in grads if grad is not None]
        table.append("|".join(parts))
    return table


def test_mask_is_this_table() -> None:
    torch.manual_seed(0)
    # Five rows; chains start at rows 2, 3 and 4.
    span = Span(0, 0, 5, 0, 3)
    keys, values = random(5, KV_HEADS, DIM), random(5, KV_HEADS, DIM)
    own = [(random(3, KV_HEADS, DIM), random(3, KV_HEADS, DIM)) for _ in range(2)]
    query = random(3, HEADS, DIM)
    seen = {
        steps: visible(
            chain_attention(query, keys, values, own[:steps], [span]), [values, *(v for _, v in own[:steps])]
        )
        for steps in range(3)
    }
    assert seen == {
        0: ["xxx  ",
            "xxxx ",
            "xxxxx"],
        1: ["xxx  |x  ",
            "xxxx | x ",
            "xxxxx|  x"],
        2: ["xxx  |x  |x  ",
            "xxxx | x | x ",
            "xxxxx|  x|  x"],
    }  # fmt: skip


def test_conversations_of_a_batch_do_not_see_each_other() -> None:
    torch.manual_seed(0)
    spans = [Span(0, 0, 3, 0, 2), Span(4, 3, 2, 2, 1)]
    keys, values = random(5, KV_HEADS, DIM), random(5, KV_HEADS, DIM)
    own = [(random(3, KV_HEADS, DIM), random(3, KV_HEADS, DIM))]
    output = chain_attention(random(3, HEADS, DIM), keys, values, own, spans)
    assert visible(output, [values, own[0][1]]) == [
        "xx   |x  ",
        "xxx  | x ",
        "   xx|  x",
    ]


def test_values_equal_plain_attention_under_that_mask() -> None:
    torch.manual_seed(1)
    rows, chains, first = 6, 4, 2
    keys, values = random(rows, KV_HEADS, DIM), random(rows, KV_HEADS, DIM)
    own = [(random(chains, KV_HEADS, DIM), random(chains, KV_HEADS, DIM)) for _ in range(2)]
    query = random(chains, HEADS, DIM)
    mask = torch.cat(
        [torch.ones(chains, rows).tril(first), torch.eye(chains), torch.eye(chains)], dim=1
    ).bool()
    all_keys, all_values = (
        torch.cat([past, *parts]).repeat_interleave(HEADS // KV_HEADS, dim=1).transpose(0, 1)
        for past, parts in ((keys, [k for k, _ in own]), (values, [v for _, v in own]))
    )
    plain = torch.nn.functional.scaled_dot_product_attention(
        query.transpose(0, 1), all_keys, all_values, attn_mask=mask
    )
    ours = chain_attention(query, keys, values, own, [Span(0, 0, rows, 0, chains)])
    torch.testing.assert_close(ours, plain.transpose(0, 1).flatten(1), rtol=1e-6, atol=1e-6)
