"""What is fed, where it stands and what it is compared with, as literal numbers."""

from __future__ import annotations

import numpy as np
import torch

from training.batch import Example, pack
from training.data import Conversation
from training.target import Captured


def example(token_ids: list[int], prompt_len: int) -> Example:
    """Streams count positions: stream s of position t is 10 t + s."""
    n = len(token_ids)
    streams = (10 * torch.arange(n)[:, None] + torch.arange(2))[..., None].to(torch.bfloat16)
    best = torch.arange(n, dtype=torch.int32) + 100
    return Example(Conversation(np.array(token_ids, np.int32), prompt_len, 0.0), Captured(streams, best))


def test_two_conversations() -> None:
    batch = pack([example([5, 6, 7, 8, 9], 2), example([1, 2, 3], 1)], steps=2)
    assert [(s.rows, s.chains, s.first) for s in batch.spans] == [
        (slice(0, 3), slice(0, 2), 1),
        (slice(3, 4), slice(2, 3), 0),
    ]
    assert batch.streams[:, 0, 0].tolist() == [0, 10, 20, 0]
    assert batch.tokens[batch.row_tokens].tolist() == [6, 7, 8, 2]
    assert batch.positions.tolist() == [0, 1, 2, 0]
    # The first chain starts at the prompt's last token: the target has then just drawn token 7.
    assert batch.chain_rows.tolist() == [1, 2, 3]
    assert batch.tokens[batch.chain_tokens].tolist() == [[7, 8, 2], [8, 9, 3]]
    # Each is compared with what the target says one position later.
    assert batch.final[:, 0].tolist() == [21, 31, 11]
    assert batch.labels.tolist() == [8, 9, 3]
    assert batch.best.tolist() == [102, 103, 101]
    assert batch.valid.tolist() == [[True, True, True], [True, False, False]]
