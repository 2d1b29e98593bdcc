"""A drafter in the verifier's own process: the control in every benchmark."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from serving.drafting.base import DraftChannel, Drafter
from serving.drafting.messages import Close, Open, Proposal, Propose

logger = logging.getLogger(__name__)


class ColocatedChannel(DraftChannel):
    """Drafts during `submit`. A drafter's exception costs only speed, and is logged ever more rarely."""

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter
        self._failures = 0
        self._answer: Proposal | None = None

    def submit(self, opens: Sequence[Open], propose: Propose) -> None:
        assert self._answer is None, "the last proposal was not collected"
        try:
            for message in opens:
                self._drafter.open(message)
            self._answer = self._drafter.propose(propose)
        except Exception:
            self._failures += 1
            if self._failures.bit_count() == 1:  # the 1st, 2nd, 4th, 8th, ...: one may come with every step
                logger.exception("drafting failed (%d times so far); decoding plainly", self._failures)
            self._answer = Proposal((), tuple(extend.key for extend in propose.extends), 0.0)

    def collect(self) -> Proposal:
        assert self._answer is not None, "nothing was submitted"
        answer, self._answer = self._answer, None
        return answer

    def close(self, message: Close) -> None:
        try:
            self._drafter.close(message)
        except Exception:
            logger.exception("closing %d sequences failed", len(message.keys))
