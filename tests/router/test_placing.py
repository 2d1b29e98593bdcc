"""The choice of a verifier, as a function of what a router knows."""

from __future__ import annotations

from collections import Counter
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from serving.router.placing import TRIES, Candidate, Order, placed, prefix_of
from serving.types import GenerationRequest, SamplingParams

NAMES = [f"verifier-{i}" for i in range(4)]
BOUND = 1.25


def idle(*names: str) -> list[Candidate]:
    return [Candidate(name, 0, 10) for name in names]


def order(candidates: list[Candidate], text: int, bound: float = BOUND, **wanted: str) -> Order:
    """For a request that begins with `text`."""
    beginning = GenerationRequest("r", (text,), SamplingParams(max_tokens=1), **wanted)
    return placed(candidates, beginning, tokens=256, bound=bound)


def loads_after(texts: list[int]) -> Counter[str]:
    """Of verifiers that get requests with these beginnings, none of which ends."""
    loads = Counter(dict.fromkeys(NAMES, 0))
    for text in texts:
        candidates = [Candidate(name, load, 1000) for name, load in loads.items()]
        loads[order(candidates, text).names[0]] += 1
    return loads


def request(*prompt: int, salt: str | None = None, key: str | None = None) -> GenerationRequest:
    return GenerationRequest("r", prompt, SamplingParams(max_tokens=1), cache_salt=salt, cache_key=key)


def test_prefixes_are_spread_and_stay_where_they_are() -> None:
    """A verifier that goes moves what it had, and nothing else."""
    orders = {text: order(idle(*NAMES), text) for text in range(200)}
    assert all(each.names[0] == each.home for each in orders.values())
    assert all(30 <= count <= 70 for count in Counter(each.home for each in orders.values()).values())
    for text, each in orders.items():
        home = each.home
        assert home == NAMES[0] or order(idle(*NAMES[1:]), text).home == home


def test_a_hot_prefix_spreads() -> None:
    loads = loads_after([7] * 40)
    assert all(loads.values())
    assert max(loads.values()) == 13, "a quarter more than the average of ten"


@given(st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=80))
def test_the_bound_holds(texts: list[int]) -> None:
    assert max(loads_after(texts).values()) <= ceil(BOUND * len(texts) / len(NAMES))


def test_full_verifiers_are_skipped_and_busy_ones_come_last() -> None:
    full, busy, idler = Candidate("full", 10, 10), Candidate("busy", 9, 10), Candidate("idler", 5, 10)
    for text in range(4):
        assert order([full, busy, idler], text, bound=1.0).names == ["idler", "busy"]
    assert order([full], 1, bound=1.0) == ("full", [], ["full"])


def test_few_of_many_are_tried() -> None:
    """Two for the prefix, two that are idle; then their state is looked at again."""
    many = [Candidate(f"verifier-{i}", i % 7, 10) for i in range(500)]
    home, names, _ = order(many, 1)
    assert len(set(names)) == len(names) == 2 * TRIES
    assert many[int(names[-1].split("-")[1])].load == 0
    assert home in {each.name for each in many}


def test_a_full_cache_counts_as_busy() -> None:
    candidates = [Candidate("full cache", 0, 10, kv_usage=0.99), Candidate("loaded", 9, 10)]
    assert order(candidates, 1).names == ["loaded", "full cache"]


def test_a_request_goes_on_with_its_own_model() -> None:
    """A verifier that a router knows nothing of yet may have it; the others are asked only if all differ."""
    new, old = Candidate("new", 0, 10, fingerprint="new"), Candidate("old", 9, 10, fingerprint="old")
    unknown = Candidate("unknown", 9, 10)
    for text in range(4):
        assert order([new, old], text, fingerprint="old")[:2] == ("old", ["old"])
        assert order([new, unknown], text, fingerprint="old").names == ["unknown"]
        assert order([new], text, fingerprint="old").names == ["new"]
        assert set(order([new, old], text, bound=9).names) == {"new", "old"}


def test_a_request_goes_to_a_model_of_its_tokenizer() -> None:
    new, old = Candidate("new", 0, 10, tokenizer="new"), Candidate("old", 9, 10, tokenizer="old")
    assert [order([new, old], text, tokenizer="old").home for text in range(4)] == ["old"] * 4


def test_where_those_that_fit_are_full_no_other_is_asked() -> None:
    full = Candidate("old", 10, 10, tokenizer="one")
    found = order([full, Candidate("new", 0, 10, tokenizer="another")], 1, tokenizer="one")
    assert (found.names, found.fitting) == ([], ["old"])


def test_a_prefix_is_of_tokens_and_cache() -> None:
    assert prefix_of(request(1, 2, 3), 2) == prefix_of(request(1, 2, 4), 2)
    assert prefix_of(request(1, 2), 2) != prefix_of(request(1, 2, salt="mine"), 2)
    assert prefix_of(request(1, 23), 2) != prefix_of(request(12, 3), 2)


def test_who_names_a_key_is_sent_by_it() -> None:
    assert prefix_of(request(1, key="talk 1"), 2) == prefix_of(request(2, key="talk 1"), 2)
    assert prefix_of(request(1, key="talk 1"), 2) != prefix_of(request(1, key="talk 2"), 2)
    assert prefix_of(request(1, key="talk 1"), 2) != prefix_of(request(1, key="talk 1", salt="mine"), 2)
