import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.spec.accept import NO_TOKEN, Cut, VerifyResult, Visit, cut, walk
from serving.spec.tree import ROOT, DraftTree
from serving.types import FinishReason

#   tree A          tree B
#   0:5   1:6       0:5
#   2:7   3:8       1:5
A = DraftTree.build(0, 10, [5, 6, 7, 8], [-1, -1, 0, 1], [-0.1, -0.2, -0.3, -0.4])
B = DraftTree.build(1, 20, [5, 5], [-1, 0], [-0.5, -0.5])
EMPTY = DraftTree.empty(2, 3)


class Target:
    """Tokens the target would choose, by visit; it remembers what it was asked."""

    def __init__(self, choices: dict[tuple[int, int], int]) -> None:
        self.choices = choices
        self.asked: list[list[Visit]] = []

    def __call__(self, visits: list[Visit]) -> list[int]:
        self.asked.append(visits)
        return [self.choices[visit] for visit in visits]


def test_follows_matching_children_and_ends_with_the_bonus_token():
    target = Target({(0, ROOT): 6, (0, 1): 8, (0, 3): 42})
    assert walk([A], target) == [VerifyResult((1, 3), (6, 8, 42), failed=False)]


def test_no_match_yields_one_token():
    assert walk([A], Target({(0, ROOT): 9})) == [VerifyResult((), (9,), failed=False)]


def test_empty_tree_is_plain_decoding():
    assert walk([EMPTY], Target({(0, ROOT): 9})) == [VerifyResult((), (9,), failed=False)]


def test_same_token_twice_on_a_path():
    target = Target({(0, ROOT): 5, (0, 0): 5, (0, 1): 5})
    assert walk([B], target) == [VerifyResult((0, 1), (5, 5, 5), failed=False)]


def test_batch_is_walked_level_by_level_and_only_where_needed():
    target = Target({(0, ROOT): 5, (0, 0): 9, (1, ROOT): 1, (2, ROOT): 5, (2, 0): 5, (2, 1): 3})
    results = walk([A, EMPTY, B], target)
    assert [r.token_ids for r in results] == [(5, 9), (1,), (5, 5, 3)]
    assert target.asked == [
        [Visit(0, ROOT), Visit(1, ROOT), Visit(2, ROOT)],
        [Visit(0, 0), Visit(2, 0)],
        [Visit(2, 1)],
    ]


def test_nothing_to_walk_asks_nothing():
    target = Target({})
    assert walk([], target) == []
    assert target.asked == []


def test_unusable_logits_fail_one_sequence_and_the_others_go_on():
    """S11. Tokens accepted before the bad row stand: plain decoding would have emitted them too."""
    target = Target({(0, ROOT): NO_TOKEN, (1, ROOT): 5, (1, 0): NO_TOKEN, (2, ROOT): 5, (2, 0): 0})
    assert walk([A, B, A], target) == [
        VerifyResult((), (), failed=True),
        VerifyResult((0,), (5,), failed=True),
        VerifyResult((0,), (5, 0), failed=False),
    ]


STOP = 99
KEPT = FinishReason.STOP
FULL = FinishReason.LENGTH


@pytest.mark.parametrize(
    ("token_ids", "room", "expected"),
    [
        ((10, 11, STOP, 20, 21, 22), 5, Cut((10, 11, STOP), KEPT)),  # S1, S2
        ((10, 11, STOP, 20), 2, Cut((10, 11), FULL)),  # S1: the stop token lies past max_tokens
        ((10, 11, STOP), 3, Cut((10, 11, STOP), KEPT)),  # the last allowed token is the stop token
        ((10, 11), 3, Cut((10, 11), None)),
        ((10, 11), 2, Cut((10, 11), FULL)),
        ((STOP, STOP), 9, Cut((STOP,), KEPT)),
        ((10,), 1, Cut((10,), FULL)),
        ((), 1, Cut((), None)),
    ],
)
def test_cut(token_ids, room, expected):
    assert cut(token_ids, frozenset({STOP}), room) == expected


@given(
    st.lists(st.integers(0, 6), max_size=12), st.frozensets(st.integers(0, 6), max_size=2), st.integers(1, 9)
)
def test_cut_equals_emitting_one_token_at_a_time(token_ids, stops, room):
    emitted, reason = [], None
    for token in token_ids:
        emitted.append(token)
        if token in stops:
            reason = FinishReason.STOP
        elif len(emitted) == room:
            reason = FinishReason.LENGTH
        if reason:
            break
    assert cut(token_ids, stops, room) == Cut(tuple(emitted), reason)
