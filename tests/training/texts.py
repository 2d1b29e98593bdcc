"""Text for a tiny target of four layers."""

from __future__ import annotations

import numpy as np

from training.data import Conversation

LAYERS = (1, 2, 3)


def conversation(seed: int, prompt: int = 4, response: int = 9, temperature: float = 0.0) -> Conversation:
    """Random tokens below 100."""
    token_ids = np.random.default_rng(seed).integers(0, 100, prompt + response).astype(np.int32)
    return Conversation(token_ids, prompt, temperature)
