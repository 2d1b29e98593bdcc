"""The small trainings that are compared, and which part of the ablation shows which of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.ablation.options import ALPHA, HEAD, SCALING, Options

DEEP_SHARE, STEP_DECAY = 0.5, 0.9  # training-time test as the shipped head's recipe has it
EAGLE1, EAGLE3 = "eagle1", "eagle3"
DIRECT, DIRECT_TTT, FUSED = "direct", "direct-ttt", "fused"


@dataclass(frozen=True, slots=True)
class Training:
    """One head, from scratch.

    fused: of low, middle and high features, or fed the last layer's alone. draft_steps: of training-time
    test; 1: without. tokens: response tokens of different text, each met `epochs` times.
    """

    name: str
    method: str
    fused: bool
    draft_steps: int
    tokens: int
    epochs: int

    @property
    def tokens_met(self) -> int:
        """What the length of the training goes by."""
        return self.tokens * self.epochs

    @property
    def speculation(self) -> str:
        """The service's name of the method."""
        return "eagle" if self.method == EAGLE1 else "eagle3"


def plan(options: Options) -> list[Training]:
    """Every training that the chosen parts need, once."""
    by_part = {
        HEAD: _heads(options),
        ALPHA: [each for each in _heads(options) if each.name in (EAGLE1, FUSED, EAGLE3)],
        SCALING: [
            *(each for each in _heads(options) if each.name in (EAGLE1, EAGLE3)),
            *_scaling(options),
        ],
    }
    return list(dict.fromkeys(each for part in options.part for each in by_part.get(part, ())))


def _heads(options: Options) -> list[Training]:
    """EAGLE-3 put together step by step, all on the same text."""
    steps, whole = options.draft_steps, (options.train_tokens, 1)
    return [
        Training(EAGLE1, "eagle1", False, 1, *whole),
        Training(DIRECT, "eagle3", False, 1, *whole),
        Training(FUSED, "eagle3", True, 1, *whole),
        Training(DIRECT_TTT, "eagle3", False, steps, *whole),
        Training(EAGLE3, "eagle3", True, steps, *whole),
    ]


def _scaling(options: Options) -> Iterator[Training]:
    """Shares of the text, twice: met so often that all trainings are of the same length, and met once."""
    for parts in (2**doubling for doubling in range(options.doublings, 0, -1)):
        tokens = options.train_tokens // parts
        for name, fused, steps in ((EAGLE3, True, options.draft_steps), (EAGLE1, False, 1)):
            yield Training(f"{name}-1of{parts}", name, fused, steps, tokens, parts)
            yield Training(f"{name}-1of{parts}-once", name, fused, steps, tokens, 1)
