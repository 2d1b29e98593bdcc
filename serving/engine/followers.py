"""Keeping the ranks of a verifier in step: rank 0 decides and tells, the others do the same to their part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from serving.engine.batch import Batch
from serving.engine.step_message import Ints, StepMessage, decode, encode
from serving.models.ranks import Ranks

if TYPE_CHECKING:
    from serving.engine.runner import ModelRunner

_NONE = np.empty(0, np.int32)
_END = np.zeros(1, np.int32)  # no step has a message so short


class Followers:
    """Rank 0's side. What moves after a step is told with the next: one message per step."""

    def __init__(self, ranks: Ranks, block_size: int) -> None:
        self._ranks, self._block_size = ranks, block_size
        self._source = self._target = _NONE

    def run(self, batch: Batch) -> None:
        """Before this rank's own forward of `batch`. Raises RankLostError."""
        with self._ranks.spent.measure("control"):
            self._ranks.tell(encode(StepMessage(batch, self._source, self._target), self._block_size))
        self._source = self._target = _NONE

    def move(self, source: Ints, target: Ints) -> None:
        assert not len(self._source), "moved twice in a step"
        self._source, self._target = source, target

    def end(self) -> None:
        """There will be no further step. Raises RankLostError."""
        self._ranks.tell(_END)


def follow(runner: ModelRunner, ranks: Ranks, block_size: int) -> None:
    """Run what rank 0 runs until it says that this is the end. Raises RankLostError when it is gone."""
    while len(ints := ranks.hear()) > len(_END):
        message = decode(ints, block_size)
        if len(message.source):
            runner.move_slots(message.source, message.target)
        runner.forward(message.batch)
