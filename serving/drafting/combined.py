"""Two drafters as one: copying text needs a lookup, the rest a head."""

from __future__ import annotations

from collections.abc import Sequence

from serving.drafting.base import Drafter
from serving.drafting.messages import Close, Open, Proposal, Propose
from serving.spec.merge import merge


class CombinedDrafter(Drafter):
    """Merges what its members propose. A sequence that one of them does not know is unknown."""

    def __init__(self, members: Sequence[Drafter]) -> None:
        assert members
        self._members = members

    def open(self, message: Open) -> None:
        for member in self._members:
            member.open(message)

    def close(self, message: Close) -> None:
        for member in self._members:
            member.close(message)

    def propose(self, message: Propose) -> Proposal:
        proposals = [member.propose(message) for member in self._members]
        unknown = {key for proposal in proposals for key in proposal.unknown}
        by_seq = [{tree.seq_id: tree for tree in proposal.trees} for proposal in proposals]
        trees = [
            merge([trees[extend.key.seq_id] for trees in by_seq], nodes, message.calibration)
            for extend, nodes in zip(message.extends, message.max_nodes, strict=True)
            if extend.key not in unknown
        ]
        return Proposal(tuple(trees), tuple(unknown), sum(proposal.compute_s for proposal in proposals))
