from hypothesis import given
from hypothesis import strategies as st

from serving.drafting.suffix_index import Match, SuffixIndex


def matches(text, shortest=2, longest=8):
    index = SuffixIndex(shortest, longest)
    index.extend(text)
    return index.matches()


def test_longest_first_then_most_recent():
    #       0  1  2  3  4  5  6  7  8  9 10 11 12
    text = [1, 2, 3, 9, 2, 3, 8, 2, 3, 7, 1, 2, 3]
    assert matches(text) == [Match(3, 3), Match(2, 9), Match(2, 6)]


def test_no_earlier_occurrence():
    assert matches([]) == matches([1]) == matches([1, 2]) == matches([1, 2, 3, 1]) == []


def test_lengths_are_capped():
    assert matches([1, 2, 3, 4, 5, 1, 2, 3, 4, 5], longest=3) == [Match(3, 5)]


def test_single_tokens_can_match():
    assert matches([5, 6, 5, 7, 5], shortest=1) == [Match(1, 4 - 1), Match(1, 1)]


def test_overlapping_occurrences_of_a_repeated_token():
    assert matches([4, 4, 4, 4]) == [Match(3, 3), Match(2, 2)]


def test_a_frequent_end_offers_a_fixed_number_of_recent_places():
    found = matches([1, 2] * 5000)
    assert len(found) == 16
    assert [match.next for match in found] == list(range(9998, 9998 - 32, -2))


@given(st.lists(st.integers(0, 2), max_size=40), st.integers(1, 3), st.integers(0, 3), st.data())
def test_equals_a_search_through_the_text_however_it_arrived(text, shortest, more, data):
    longest = shortest + more
    index = SuffixIndex(shortest, longest)
    split = data.draw(st.integers(0, len(text)))
    index.extend(text[:split])
    index.extend(text[split:])
    expected = []
    for place in range(len(text) - 1, shortest - 1, -1):
        agree = [n for n in range(1, min(longest, place) + 1) if text[place - n : place] == text[-n:]]
        if shortest in agree:
            expected.append(Match(max(agree), place))
    assert index.matches() == sorted(expected, key=lambda match: -match.length)[:16]
    assert index.tokens == text
