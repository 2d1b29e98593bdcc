"""Wire messages between a verifier and a drafter (design, section 6).

Plain frozen dataclasses of ints and numpy arrays: Ray moves the arrays without copying them.
A sequence is known by (`incarnation` of its verifier, `seq_id`): ids repeat after a verifier restarts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.spec.calibration import IDENTITY, CalibrationMaps
from serving.spec.tree import DraftTree


class SeqKey(NamedTuple):
    incarnation: str
    seq_id: int


@dataclass(frozen=True, slots=True)
class Open:
    """A verifier will draft for this sequence. Opening it again resets what the drafter holds of it.

    `fingerprint` names the target's vocabulary and features the drafter must have been built for.
    `seed`, `choice_index` and `temperature` let a drafter couple its noise with the verifier's.
    """

    key: SeqKey
    fingerprint: str
    seed: int
    choice_index: int
    temperature: float


@dataclass(frozen=True, slots=True)
class Extend:
    """Committed tokens the drafter does not hold yet.

    token_ids[j] = token at absolute position start + 1 + j, for j in 0 .. base_len - 2 - start, as int32;
    with a feature-fed head, features[j] belongs to position start + j (shape [len(token_ids), d]; the
    target's dtype, bfloat16 as its bits in uint16).
    `first_token` is the token at position 0, sent with start == 0 only (no pair has it as its token).
    base_len = committed tokens, the root included: start + 1 + len(token_ids) == base_len.
    """

    key: SeqKey
    start: int
    base_len: int
    token_ids: NDArray[np.int32]
    first_token: int | None = None
    features: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        assert self.start + 1 + len(self.token_ids) == self.base_len
        assert (self.first_token is not None) == (self.start == 0)


@dataclass(frozen=True, slots=True)
class Propose:
    """Extend every named sequence, then draft one tree for each.

    max_nodes[i] and max_depth[i] bound the tree of extends[i]. `price` is the least path value a node must
    have to be worth a row of verification (0: no lower bound). `calibration` is the verifier's latest. It
    comes with every message (3 KiB, 6 us): no drafter can have missed it, and none has to remember it.
    """

    extends: tuple[Extend, ...]
    max_nodes: tuple[int, ...]
    max_depth: tuple[int, ...]
    price: float = 0.0
    calibration: CalibrationMaps = IDENTITY

    def __post_init__(self) -> None:
        assert len(self.extends) == len(self.max_nodes) == len(self.max_depth)


@dataclass(frozen=True, slots=True)
class Close:
    """The sequences are finished, aborted or preempted."""

    keys: tuple[SeqKey, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """Answer to Propose: trees of the sequences the drafter knew, the others by name.

    `compute_s` is the drafter's own time; the rest of the round trip is the wire.
    """

    trees: tuple[DraftTree, ...]
    unknown: tuple[SeqKey, ...]
    compute_s: float
