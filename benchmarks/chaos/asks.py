"""The requests of a run: greedy and sampled, with penalties, streamed and whole, some with a common start."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STREAM = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
PENALTIES = {"presence_penalty": 0.6, "frequency_penalty": 0.3, "repetition_penalty": 1.1}
KINDS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("greedy, streamed", {"temperature": 0, **STREAM}),
    ("sampled, streamed", {"temperature": 1, **STREAM}),
    ("sampled with penalties, streamed", {"temperature": 0.8, "top_p": 0.95, **PENALTIES, **STREAM}),
    ("greedy", {"temperature": 0}),
    ("greedy with log-probabilities, streamed", {"temperature": 0, "logprobs": 2, **STREAM}),
    ("sampled, two choices", {"temperature": 1, "n": 2}),
    ("sampled with penalties", {"temperature": 0.8, **PENALTIES}),
    ("sampled until a stop string, streamed", {"temperature": 1, "stop": "ab", "min_tokens": 8, **STREAM}),
)
LETTERS = "abcde "
PROMPT = 48
COMMON = "every other prompt begins with this text, which is longer than two blocks"


@dataclass(frozen=True, slots=True)
class Ask:
    """A request's body, less the model's name, and what it is an example of."""

    kind: str
    body: Mapping[str, Any]

    @property
    def streamed(self) -> bool:
        return bool(self.body.get("stream"))


def make_asks(count: int, max_tokens: int, seed: int) -> list[Ask]:
    """The same for the same arguments."""
    draw = random.Random(seed)
    return [_ask(place, max_tokens, draw) for place in range(count)]


def _ask(place: int, max_tokens: int, draw: random.Random) -> Ask:
    kind, sampling = KINDS[place % len(KINDS)]
    prompt = "".join(draw.choices(LETTERS, k=PROMPT))
    body = {
        "prompt": COMMON + prompt if place // len(KINDS) % 2 else prompt,
        "max_tokens": draw.randint(max_tokens // 2, max_tokens),
        "seed": draw.getrandbits(32),
        "ignore_eos": True,
    }
    return Ask(kind, body | dict(sampling))
