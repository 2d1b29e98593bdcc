"""The process that drafts: it holds the drafter's state and answers the verifiers' messages."""

from __future__ import annotations

from collections.abc import Sequence

from serving.config import ServeConfig
from serving.drafting.messages import Close, Open, Proposal, Propose
from serving.drafting.prompt_lookup import PromptLookupDrafter
from serving.logs import configure_logging


class DrafterWorker:
    """A drafter behind actor calls. One call runs at a time, in the order each verifier sent them."""

    def __init__(self, config: ServeConfig) -> None:
        configure_logging(config.log_level)
        self._drafter = PromptLookupDrafter(config.speculation)

    def ping(self) -> None:
        """Answers when the drafter is built and not stuck."""

    def submit(self, opens: Sequence[Open], propose: Propose) -> Proposal:
        """Open and propose in one call: a round trip less in the step that starts a sequence."""
        for message in opens:
            self._drafter.open(message)
        return self._drafter.propose(propose)

    def close(self, message: Close) -> None:
        self._drafter.close(message)
