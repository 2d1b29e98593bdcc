"""Stop strings, wherever the pieces of text are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.router.stops import StopMatcher

texts = st.text("ab", max_size=24)
stop_lists = st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=4)


def first_complete(text: str, stops: list[str]) -> tuple[str, bool]:
    """The definition: the shortest beginning that ends with a stop string, without the longest such."""
    for end in range(len(text) + 1):
        complete = [len(stop) for stop in stops if text[:end].endswith(stop)]
        if complete:
            return text[: end - max(complete)], True
    return text, False


@given(text=texts, stops=stop_lists, size=st.integers(1, 6))
def test_equals_the_definition_for_every_split(text: str, stops: list[str], size: int) -> None:
    matcher = StopMatcher(stops)
    emitted = ""
    for i in range(0, len(text), size):
        piece, stopped = matcher.push(text[i : i + size])
        emitted += piece
        if stopped:
            assert (emitted, True) == first_complete(text, stops)
            return
    assert (emitted + matcher.flush(), False) == first_complete(text, stops)


@given(text=texts, stops=stop_lists)
def test_only_the_beginning_of_a_stop_is_held_back(text: str, stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    emitted, stopped = matcher.push(text)
    held = text[len(emitted) :]
    if not stopped:
        assert not held or any(stop.startswith(held) for stop in stops)


@pytest.mark.parametrize(
    ("pieces", "stops", "expected"),
    [
        (["a STOP b"], ["STOP"], (["a "], True)),
        (["a ST", "OP b"], ["STOP"], (["a ", ""], True)),
        (["a ST", "AY"], ["STOP"], (["a ", "STAY"], False)),
        (["a S", "STOP"], ["STOP"], (["a ", "S"], True)),
        (["ab", "cd"], ["bc", "abcd"], (["", "a"], True)),
        (["xyz"], ["yz", "xyz"], ([""], True)),
        (["\n", "\n"], ["\n\n"], (["", ""], True)),
    ],
)
def test_examples(pieces: list[str], stops: list[str], expected: tuple[list[str], bool]) -> None:
    matcher = StopMatcher(stops)
    settled = [matcher.push(piece) for piece in pieces]
    assert ([text for text, _ in settled], settled[-1].stopped) == expected
