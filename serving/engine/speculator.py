"""The step loop's side of drafting: who wants trees, what the drafter must be told, what came back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.config import SpeculationConfig
from serving.drafting.base import DraftChannel
from serving.drafting.messages import Close, Extend, Open, Propose, SeqKey
from serving.engine.scheduler import Decode
from serving.engine.sequence import Sequence
from serving.spec.calibrator import Calibrator
from serving.spec.controller import NO_DRAFTS, DraftPlan
from serving.spec.tree import DraftTree

# Committed tokens that a drafter is sent in one step, those of one sequence not counted.
MAX_FED = 512

SequenceFeatures = Callable[[Sequence, int, int], NDArray[Any]]
"""(sequence, start, end) -> features of positions start .. end - 1 for the wire."""


@dataclass(frozen=True, slots=True)
class DraftRound:
    """Trees of one step, one per decode and possibly empty.

    plan: what they were drafted by. hidden: another step ran meanwhile. compute_s: the drafter's own time.
    asked: sequences that trees were asked for; fed: committed tokens that the drafter was sent with that.
    under_way: other sequences that wait for theirs. failures: sequences without a usable tree, by reason.
    """

    trees: list[DraftTree]
    plan: DraftPlan = NO_DRAFTS
    hidden: bool = False
    compute_s: float = 0.0
    asked: int = 0
    under_way: int = 0
    fed: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)


class _Asked(NamedTuple):
    """missing: committed tokens that the drafter has not been told."""

    seq: Sequence
    nodes: int
    missing: int


@dataclass(slots=True)
class _Round:
    """What was asked for together, by sequence. hidden: a step has run since."""

    asked: dict[int, _Asked]
    plan: DraftPlan
    hidden: bool = False


class Speculator:
    """Asks for trees after a commit and hands them to a later step, in rounds: first asked, first collected.

    The verifier is the only authority on what is committed: a tree that grew from another length is dropped,
    and a sequence the drafter does not know is opened again (design, section 6).
    """

    def __init__(
        self,
        config: SpeculationConfig,
        channel: DraftChannel,
        incarnation: str,
        fingerprint: str,
        vocab_size: int,
        features: SequenceFeatures | None,
    ) -> None:
        """`features` gathers what a head is fed; None for drafters that need only tokens."""
        self._config, self._channel = config, channel
        self._incarnation, self._fingerprint = incarnation, fingerprint
        self._vocab_size = vocab_size
        self._features = features
        self.calibrator = Calibrator()
        self._rounds: deque[_Round] = deque()
        self._opened: set[int] = set()  # sequences that a drafter has heard of

    def asked(self, seq: Sequence) -> int:
        """The most draft tokens that were asked for this sequence."""
        asked = (each.asked.get(seq.seq_id) for each in self._rounds)
        return next((each.nodes for each in asked if each), 0)

    def missed(self, sequences: Iterable[Sequence]) -> tuple[int, ...]:
        """Of each, committed tokens that drafters have not been sent; 0 where no trees are wanted."""
        return tuple(_missing(seq) if seq.wants_trees else 0 for seq in sequences)

    def is_drafting(self, seq: Sequence) -> bool:
        """Its trees are under way."""
        return any(seq.seq_id in each.asked for each in self._rounds)

    @property
    def rounds(self) -> list[frozenset[int]]:
        """Ids of the sequences whose trees are under way, the oldest round first. One may be empty."""
        return [frozenset(each.asked) for each in self._rounds]

    def ask(self, sequences: Iterable[tuple[Sequence, int]], plan: DraftPlan) -> None:
        """Request trees of up to `room` tokens for sequences that decode, as one round.

        A drafter that has missed much, be it a prompt or a pause, is told of a few sequences at a time: all
        of them wait for their trees together.
        """
        wanted = [_asked(seq, min(room, plan.nodes)) for seq, room in sequences]
        wanted = [asked for asked in wanted if asked.nodes > 0]
        if plan.urgent:
            wanted = [asked for asked in wanted if asked.seq.request.priority == 0]
        if plan.sequences < len(wanted) or sum(asked.missing for asked in wanted) > MAX_FED:
            wanted = _least_missing(wanted, plan.sequences)
        if not wanted:
            return
        asked_for = plan._replace(sequences=len(wanted))
        self._rounds.append(_Round({asked.seq.seq_id: asked for asked in wanted}, asked_for))
        opens = [self._open(asked.seq) for asked in wanted if asked.seq.num_drafted == 0]
        propose = Propose(
            extends=tuple(self._extend(asked.seq) for asked in wanted),
            max_nodes=tuple(asked.nodes for asked in wanted),
            max_depth=tuple(min(asked.nodes, self._config.max_depth) for asked in wanted),
            price=plan.price,
            calibration=self.calibrator.maps,
        )
        self._opened.update(message.key.seq_id for message in opens)
        for seq, _, _ in wanted:
            seq.num_drafted = len(seq.token_ids) - 1
        self._channel.submit(opens, propose)

    def collect(self, decodes: Iterable[Decode], rounds: int) -> DraftRound:
        """The trees of so many rounds that have come for `decodes`, cut to what each may verify."""
        taken = [self._rounds.popleft() for _ in range(rounds)]
        proposals = [self._channel.collect() for _ in taken]
        asked = {seq_id: each for of in taken for seq_id, each in of.asked.items()}
        arrived = {tree.seq_id: tree for proposal in proposals for tree in proposal.trees}
        unknown = {key.seq_id for proposal in proposals for key in proposal.unknown} & asked.keys()
        for seq_id in unknown:
            asked[seq_id].seq.num_drafted = 0
        for left in self._rounds:
            left.hidden = True
        return DraftRound(
            [self._fitting(arrived, decode) for decode in decodes],
            _together([of.plan for of in taken]),
            any(of.hidden for of in taken),
            sum(proposal.compute_s for proposal in proposals),
            len(asked),
            sum(len(left.asked) for left in self._rounds),
            sum(each.missing for each in asked.values()),
            {"unknown": len(unknown), "missing": len(asked.keys() - arrived.keys() - unknown)},
        )

    def forget(self, sequences: Iterable[Sequence]) -> None:
        """Sequences that ended or were preempted. Of those that decoded plainly no drafter is told."""
        keys = tuple(self._key(seq) for seq in sequences if seq.seq_id in self._opened)
        self._opened.difference_update(key.seq_id for key in keys)
        for each in self._rounds:
            for key in keys:
                each.asked.pop(key.seq_id, None)
        if keys:
            self._channel.close(Close(keys))

    def _fitting(self, arrived: dict[int, DraftTree], decode: Decode) -> DraftTree:
        seq = decode.seq
        tree = arrived.get(seq.seq_id)
        if tree is None or tree.base_len != len(seq.token_ids) or not self._in_vocabulary(tree):
            return DraftTree.empty(seq.seq_id, len(seq.token_ids))
        return tree[: decode.max_draft]

    def _in_vocabulary(self, tree: DraftTree) -> bool:
        """The target cannot embed any other token; a head's vocabulary may be padded further."""
        return bool(((tree.token_ids >= 0) & (tree.token_ids < self._vocab_size)).all())

    def _key(self, seq: Sequence) -> SeqKey:
        return SeqKey(self._incarnation, seq.seq_id)

    def _open(self, seq: Sequence) -> Open:
        params = seq.request.params
        return Open(
            self._key(seq), self._fingerprint, params.seed, seq.request.choice_index, params.temperature
        )

    def _extend(self, seq: Sequence) -> Extend:
        start = seq.num_drafted
        return Extend(
            key=self._key(seq),
            start=start,
            base_len=len(seq.token_ids),
            token_ids=np.array(seq.token_ids[start + 1 :], np.int32),
            first_token=seq.token_ids[0] if start == 0 else None,
            features=self._features(seq, start, len(seq.token_ids) - 1) if self._features else None,
        )


def _together(plans: list[DraftPlan]) -> DraftPlan:
    """Of rounds that are verified in one step."""
    if not plans:
        return NO_DRAFTS
    nodes, sequences, prices, urgent = zip(*plans, strict=True)
    return DraftPlan(max(nodes), sum(sequences), min(prices), all(urgent))


def _asked(seq: Sequence, nodes: int) -> _Asked:
    own = seq.request.params.num_speculative_tokens
    return _Asked(seq, nodes if own is None else min(nodes, own), _missing(seq))


def _missing(seq: Sequence) -> int:
    return len(seq.token_ids) - 1 - seq.num_drafted


def _least_missing(wanted: list[_Asked], most: int) -> list[_Asked]:
    """Up to `most` of them: those of which the drafter has missed MAX_FED tokens together, and one more, or
    who has missed that many alone would never have its turn."""
    ordered = sorted(wanted, key=lambda asked: asked.missing)[:most]
    fed = accumulate(asked.missing for asked in ordered)
    return ordered[: sum(sent <= MAX_FED for sent in fed) + 1]
