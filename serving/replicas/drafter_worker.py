"""The process that drafts: it holds the drafter's state and answers the verifiers' messages."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from serving.config import ServeConfig
from serving.drafting.messages import Close, Open, Proposal, Propose
from serving.logs import configure_logging
from serving.metrics import start_exporter
from serving.replicas.drafters import build_drafter
from serving.replicas.feature_wire import joined_again
from serving.replicas.load import DrafterMeter

if TYPE_CHECKING:  # torch: only where a network runs
    from serving.replicas.direct_transport import Meeting


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

    def ping(self, probe: Any = None) -> None:
        """Answers when nothing else is being done, and `probe` has come, however it travels."""

    def join(self, meeting: Meeting) -> None:
        """Let a verifier send features directly. Raises RuntimeError when it is not met."""
        from serving.replicas.direct_transport import join

        join(meeting)

    def submit(self, opens: Sequence[Open], propose: Propose, features: Any = None) -> Proposal:
        """Open and propose in one call: a round trip less in the step that starts a sequence.

        features: of all `propose.extends`, where they were too large to travel in it; an array or a tensor.
        """
        began = time.monotonic()
        for message in opens:
            self._drafter.open(message)
        whole = propose if features is None else joined_again(propose, np.asarray(features))
        proposal = self._drafter.propose(whole)
        self._meter.drafted((extend.key for extend in propose.extends), time.monotonic() - began)
        return proposal

    def close(self, message: Close) -> None:
        self._drafter.close(message)
        self._meter.closed(message.keys)

    def load(self) -> dict[str, float]:
        """What the number of drafters follows, since the last call (DrafterMeter.take)."""
        return self._meter.take()
