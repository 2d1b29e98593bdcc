"""When a batch is verified in two halves by turns, so that drafting for one hides behind the other."""

from __future__ import annotations

from serving.spec.forecast import Probing

# Of the rate of whole steps: alternating begins above the first and ends below the second.
BEGINS, ENDS = 1.03, 0.99
# After it was given up it is tried again where it is not that much slower, ever more rarely.
WORTH_A_TRIAL = 0.5
TRIAL = 18  # steps that it lasts at least: enough to turn a median of the last 31, and the next forecast
PAUSE = 1024  # the most steps between two trials


class Alternation:
    """Follows two forecasts, and checks that of alternating by doing it now and then.

    What alternating costs is only seen while it lasts: where drafter and verifier share cores, each slows the
    other down. A forecast that was spoilt by a busy neighbour would otherwise stand for ever.
    """

    def __init__(self) -> None:
        self._on = self._tried = False
        self._trial = 0
        self._probing = Probing(PAUSE)

    def decide(self, whole: float, halves: float) -> bool:
        """Tokens per second either way. Called once in every step."""
        if self._trial:
            self._trial -= 1
            return True
        wanted = ENDS if self._on else BEGINS
        now = halves > wanted * whole
        if not now and self._tried and not self._on and halves > WORTH_A_TRIAL * whole:
            now = self._probing.due()
        if now and not self._on:
            self._trial, self._tried = TRIAL, True
        elif now:
            self._probing.restart()
        self._on = now
        return now
