"""Which verifier gets a request: one that has its beginning in the cache, unless that one is too busy.

Consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam, 2016), with rendezvous hashing: all
routers agree without a word, and a verifier that comes or goes moves its own share of the prefixes only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from heapq import nlargest, nsmallest
from math import ceil
from typing import NamedTuple

from serving.types import GenerationRequest

# Above it, a newcomer is likely to preempt another request.
FULL_CACHE = 0.95
# Verifiers to try one after the other before looking at all of them again, each for one of two reasons.
TRIES = 2


class Candidate(NamedTuple):
    """A verifier as a router knows it. load: requests it holds, of `capacity`. kv_usage in 0..1.

    fingerprint, tokenizer: as in its model's card; None: not known yet.
    """

    name: str
    load: int
    capacity: int
    kv_usage: float = 0.0
    fingerprint: str | None = None
    tokenizer: str | None = None

    @property
    def full(self) -> bool:
        return self.load >= self.capacity

    def may_take(self, request: GenerationRequest) -> bool:
        """As far as is known it has the model that the request is for."""
        same = (self.fingerprint, request.fingerprint), (self.tokenizer, request.tokenizer)
        return all(None in pair or pair[0] == pair[1] for pair in same)


class Order(NamedTuple):
    """home: where the request's beginning is cached if it is anywhere. names: whom to ask, the best first;
    none where all that are fitting are full."""

    home: str
    names: list[str]
    fitting: list[str]


def prefix_of(request: GenerationRequest, tokens: int) -> bytes:
    """A key that requests share if they name the same cache key, or else begin with the same `tokens` tokens
    and share a cache."""
    beginning = request.prompt_ids[:tokens] if request.cache_key is None else request.cache_key
    return repr((request.cache_salt, beginning)).encode()


def placed(
    candidates: Sequence[Candidate], request: GenerationRequest, *, tokens: int, bound: float
) -> Order:
    """Whom to ask, at most 2 x TRIES of those that have room: time grows with the candidates, no faster.

    Those whose load stays within `bound` times the average (with this request) come first, in the order in
    which they are hashed for its beginning of so many `tokens`; then the others, the least loaded first.
    Those that are known to have another model are left out while there are others.
    """
    prefix = prefix_of(request, tokens)
    fitting = [each for each in candidates if each.may_take(request)] or candidates
    affinity = {each.name: _affinity(prefix, each.name) for each in fitting}
    limit = ceil(bound * (1 + sum(each.load for each in fitting)) / len(fitting))
    free = [each for each in fitting if not each.full]
    within = [each for each in free if each.load < limit and each.kv_usage < FULL_CACHE]
    best = nlargest(TRIES, within, key=lambda each: affinity[each.name])
    others = [each for each in free if each not in best]
    idlest = nsmallest(TRIES, others, key=lambda each: (each.kv_usage >= FULL_CACHE, each.load))
    home = max(affinity, key=affinity.__getitem__)
    return Order(home, [each.name for each in (*best, *idlest)], list(affinity))


def _affinity(prefix: bytes, name: str) -> bytes:
    return hashlib.blake2b(prefix, key=name.encode()[:64], digest_size=8).digest()
