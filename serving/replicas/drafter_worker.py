"""The process that drafts: it holds the drafter's state and answers the verifiers' messages."""

from __future__ import annotations

import time
from collections.abc import Sequence

from serving.config import ServeConfig
from serving.drafting.messages import Close, Open, Proposal, Propose
from serving.logs import configure_logging
from serving.metrics import start_exporter
from serving.replicas.drafters import build_drafter
from serving.replicas.load import DrafterMeter


class DrafterWorker:
    """A drafter behind actor calls. One call runs at a time, in the order each verifier sent them."""

    def __init__(self, config: ServeConfig) -> None:
        configure_logging(config.log_level)
        self._config = config
        self._meter = DrafterMeter(config.speculation.lease_s)

    def start(self) -> None:
        """Build the drafter, once. Raises ModelLoadError when its head cannot be loaded."""
        start_exporter(self._config.replicas.drafter_metrics_port)
        self._drafter = build_drafter(self._config)

    def ping(self) -> None:
        """Answers when nothing else is being done."""

    def submit(self, opens: Sequence[Open], propose: Propose) -> Proposal:
        """Open and propose in one call: a round trip less in the step that starts a sequence."""
        began = time.monotonic()
        for message in opens:
            self._drafter.open(message)
        proposal = self._drafter.propose(propose)
        self._meter.drafted((extend.key for extend in propose.extends), time.monotonic() - began)
        return proposal

    def close(self, message: Close) -> None:
        self._drafter.close(message)
        self._meter.closed(message.keys)

    def load(self) -> dict[str, float]:
        """What the number of drafters follows, since the last call (DrafterMeter.take)."""
        return self._meter.take()
