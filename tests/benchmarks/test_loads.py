"""Rates of requests at once, from answers made by hand."""

from __future__ import annotations

import pytest

from benchmarks.answers import Answer, Snapshot, Wave, Window
from benchmarks.speed.batch import Load, num_waves


def answer(tokens: int, first_s: float, last_s: float) -> Answer:
    return Answer("", None, tokens, first_s, last_s)


def snapshot(at: float, steps: int, committed: int, forward_s: float) -> Snapshot:
    counters = {
        "steps": steps,
        "times": {"forward": forward_s},
        "speculation": {"committed_tokens": committed},
    }
    return Snapshot(at, counters)


def test_a_window_is_the_difference_of_two_moments() -> None:
    window = Window.between(snapshot(10.0, 5, 100, 1.5), snapshot(12.0, 25, 180, 3.0))
    assert window == Window(2.0, 20, 80, {"forward": 1.5})


def test_an_answer_s_rates() -> None:
    one = answer(11, 1.0, 3.0)
    assert one.tokens_per_s == pytest.approx(11 / 3)
    assert one.decode_tokens_per_s == pytest.approx(5.0)
    assert answer(1, 1.0, 1.0).decode_tokens_per_s is None


def test_waves_follow_each_other() -> None:
    waves = (
        Wave((answer(10, 1.0, 2.0), answer(30, 1.0, 4.0)), Window(1.0, 1, 20, {})),
        Wave((answer(20, 1.0, 1.0), answer(20, 2.0, 6.0)), None),
    )
    load = Load(waves)
    assert load.tokens_per_s == pytest.approx(80 / 10)  # each wave lasts as long as its last answer
    assert load.decode_tokens_per_s == pytest.approx(20.0)  # of the wave that decoded together


def test_single_requests_decode_from_their_first_token() -> None:
    load = Load((Wave((answer(11, 1.0, 3.0),), None), Wave((answer(1, 5.0, 5.0),), None)))
    assert load.tokens_per_s == pytest.approx(12 / 8)
    assert load.decode_tokens_per_s == pytest.approx(5.0)


def test_only_full_waves() -> None:
    assert [num_waves(16, size) for size in (1, 3, 8, 16)] == [16, 5, 2, 1]
