"""The two seams of drafting: `Drafter` is what drafts, `DraftChannel` is how the step loop reaches one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from serving.drafting.messages import Close, Open, Proposal, Propose


class Drafter(Protocol):
    """Holds state per open sequence; called from one thread at a time."""

    def open(self, message: Open) -> None: ...

    def propose(self, message: Propose) -> Proposal:
        """Extend and draft. Sequences that are not open are answered in `Proposal.unknown`."""
        ...

    def close(self, message: Close) -> None:
        """Forget sequences; unknown ones are ignored."""
        ...


class DraftChannel(Protocol):
    """The step loop's way to its drafters: send after a commit, collect before the next forward.

    Never raises for a drafter's fault: a tree that did not arrive in time is absent, and its sequence decodes
    plainly in this step (fail closed). Every `submit` begins a round; rounds are collected in their order.
    """

    def submit(self, opens: Sequence[Open], propose: Propose) -> None:
        """Start drafting. Returns at once where the drafter is another process."""
        ...

    def collect(self) -> Proposal:
        """Trees of the oldest round that arrived by the deadline; `unknown` are sequences to open again."""
        ...

    def close(self, message: Close) -> None: ...
