"""What the target computes while trees are drafted elsewhere: prompt chunks, or the other half of the batch.

whole     verify A B      (wait)      verify A B      (wait)
drafter               draft A B                   draft A B

halves    verify A    verify B    verify A    verify B
drafter   draft B     draft A     draft B     draft A
"""

from __future__ import annotations

from collections.abc import Callable, Set
from collections.abc import Sequence as Seq
from itertools import chain
from typing import Literal, NamedTuple

from serving.engine.sequence import Sequence
from serving.spec.controller import Controller
from serving.spec.cost import StepLoad


class Turn(NamedTuple):
    """A step takes the trees of the oldest so many rounds; `resting` sequences wait for other rounds."""

    rounds: int
    resting: Set[int] = frozenset()


class Overlap:
    """Whose turn it is. Which sequences share a forward changes no token: it is a matter of speed alone."""

    def __init__(self, mode: Literal["auto", "always", "off"]) -> None:
        """auto: where the controller predicts that it is faster."""
        self._mode = mode
        self.alternating = False  # between halves, as of the last `groups`
        self._prefilled = False  # the last step did not take the round it could have taken

    def turn(self, rounds: Seq[Set[int]], load: Callable[[], StepLoad], controller: Controller) -> Turn:
        """rounds: sequences whose trees are under way, the oldest first. load: of a step with all of them; it
        is only asked for where it matters, for this comes before every step."""
        if len(rounds) == 1 and not self._prefilled and self._prefill_first(load, controller):
            self._prefilled = True
            return Turn(0, _all_of(rounds))
        self._prefilled = False
        if not self.alternating:
            return Turn(len(rounds))
        # Rounds whose sequences have all ended give a step nothing to do.
        taken = next((i for i, round_ in enumerate(rounds, 1) if round_), len(rounds))
        return Turn(taken, _all_of(rounds[taken:]))

    def groups(
        self, free: list[Sequence], rounds: int, load: StepLoad, controller: Controller
    ) -> list[list[Sequence]]:
        """Whom to ask trees for, each group in a round of its own.

        free: decoding sequences that nothing was asked for; `rounds` of others are under way. load: of all.
        Where the free are too many for one half, the rest decodes plainly with the other half, to join
        it: the halves differ by one sequence at most.
        """
        self.alternating = load.sequences > 1 and self._halves(load, controller)
        if not self.alternating:
            return [free]
        half = (load.sequences + 1) // 2
        return [free[:half]] if rounds else [free[:half], free[half:]]

    def _halves(self, load: StepLoad, controller: Controller) -> bool:
        return self._mode == "always" or (self._mode == "auto" and controller.halves(load))

    def _prefill_first(self, load_of_all: Callable[[], StepLoad], controller: Controller) -> bool:
        if self._mode == "off" or self.alternating:  # halves hide drafting anyway
            return False
        load = load_of_all()
        if not load.prefill_tokens:
            return False
        return self._mode == "always" or controller.prefill_first(load)


def _all_of(rounds: Seq[Set[int]]) -> Set[int]:
    return frozenset(chain.from_iterable(rounds))
