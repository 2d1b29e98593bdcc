"""Text for a tiny target of five layers."""

from __future__ import annotations

import numpy as np

from training.data import Conversation
from training.target import Target

LAYERS = (2, 3, 4)


def conversation(seed: int, prompt: int = 4, response: int = 9, temperature: float = 0.0) -> Conversation:
    """Random tokens below 100."""
    token_ids = np.random.default_rng(seed).integers(0, 100, prompt + response).astype(np.int32)
    return Conversation(token_ids, prompt, temperature)


def greedy(target: Target, seed: int, response: int = 9) -> Conversation:
    """A random prompt with the target's own answer."""
    prompt = conversation(seed)
    tokens = prompt.token_ids[: prompt.prompt_len]
    for _ in range(response):
        asked = Conversation(np.append(tokens, np.int32(0)), len(tokens), 0.0)
        tokens = np.append(tokens, target.capture(asked, ()).best[-2].numpy())
    return Conversation(tokens, prompt.prompt_len, 0.0)
