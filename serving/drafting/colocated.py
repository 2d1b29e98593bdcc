"""A drafter in the verifier's own process: the control in every benchmark."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

from serving.drafting.base import DraftChannel, Drafter
from serving.drafting.messages import Close, Open, Proposal, Propose

logger = logging.getLogger(__name__)


class ColocatedChannel(DraftChannel):
    """Drafts during `submit`. A drafter's exception costs only speed, and is logged ever more rarely."""

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter
        self._failures = 0
        self._answers: deque[Proposal] = deque()

    def submit(self, opens: Sequence[Open], propose: Propose) -> None:
        try:
            for message in opens:
                self._drafter.open(message)
            self._answers.append(self._drafter.propose(propose))
        except Exception:
            self._failures += 1
            if self._failures.bit_count() == 1:  # the 1st, 2nd, 4th, 8th, ...: one may come with every step
                logger.exception("drafting failed (%d times so far); decoding plainly", self._failures)
            self._answers.append(Proposal((), tuple(extend.key for extend in propose.extends), 0.0))

    def collect(self) -> Proposal:
        assert self._answers, "nothing was submitted"
        return self._answers.popleft()

    def close(self, message: Close) -> None:
        try:
            self._drafter.close(message)
        except Exception:
            logger.exception("closing %d sequences failed", len(message.keys))
