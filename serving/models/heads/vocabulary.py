"""Which of the target's tokens a head drafts from."""

from __future__ import annotations

import torch
from torch import Tensor

from serving.errors import ModelLoadError
from serving.models.heads.config import HeadConfig
from serving.models.heads.weights import HeadWeights


def target_ids(weights: HeadWeights, head: HeadConfig) -> Tensor:
    """int64 [draft_vocab]: the target's id of each draft id, `i + d2t[i]` (EAGLE-3).

    Without d2t, and with one of zeros, the identity. Raises ModelLoadError when the mapping is absent for
    a smaller vocabulary, holds ids instead of offsets, leaves the vocabulary or contradicts t2d.
    """
    places = torch.arange(head.draft_vocab_size)
    if "d2t" not in weights:
        if head.draft_vocab_size < head.vocab_size:
            _refuse(weights, f"drafts from {head.draft_vocab_size} tokens but has no d2t to say which")
        return places
    offsets = weights.raw("d2t").long()
    if offsets.shape != places.shape:
        _refuse(weights, f"has a d2t of shape {list(offsets.shape)} for {len(places)} draft tokens")
    if not offsets.any():
        return places
    if torch.equal(offsets, places):
        _refuse(weights, "has a d2t that holds token ids, not offsets from the draft ids")
    ids = places + offsets
    if int(ids.min()) < 0 or int(ids.max()) >= head.vocab_size:
        _refuse(weights, f"has a d2t that leaves the vocabulary of {head.vocab_size} tokens")
    _check_t2d(weights, ids)
    return ids


def sayable(ids: Tensor, vocab_size: int) -> Tensor:
    """bool [draft_vocab]: what can be drafted for a target of `vocab_size` tokens.

    Not what only a padded vocabulary has (case S19), nor again a token that padded the draft vocabulary
    of a head trained on few tokens (case S18): siblings must differ.
    """
    first = torch.zeros_like(ids, dtype=torch.bool)
    order = ids.argsort(stable=True)
    first[order] = ids[order].diff(prepend=torch.tensor([-1])) != 0
    return first & (ids < vocab_size)


def _check_t2d(weights: HeadWeights, ids: Tensor) -> None:
    if "t2d" not in weights:
        return
    known = weights.raw("t2d").bool()
    if len(known) <= int(ids.max()) or not bool(known[ids].all()):
        _refuse(weights, "has a d2t and a t2d that contradict each other")


def _refuse(weights: HeadWeights, reason: str) -> None:
    raise ModelLoadError(f"head {weights.folder} {reason}.")
