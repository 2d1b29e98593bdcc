"""How much a drafter is used, as its pool replica knows it."""

from __future__ import annotations

from dataclasses import dataclass

from serving.replicas.lease_book import LEASE_S, RENEW_S, LeaseBook


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_holder_is_told_of_the_others_load() -> None:
    book = LeaseBook(Clock())
    assert book.renew("a", 3) == 0
    assert book.renew("b", 5) == 3
    assert book.renew("a", 1) == 5
    assert book.sequences == 6


def test_leases_that_are_not_renewed_expire() -> None:
    """A verifier that died gives nothing back."""
    clock = Clock()
    book = LeaseBook(clock)
    book.renew("dead", 7)
    for _ in range(3):
        assert book.sequences >= 7
        clock.now += RENEW_S
        book.renew("alive", 2)
    assert clock.now > LEASE_S
    assert book.sequences == 2
