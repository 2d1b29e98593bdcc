"""How `benchmarks chaos` and `soak` judge: what counts as a whole answer, as the same one, and as growth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.chaos.leaks import Footprint
from benchmarks.chaos.load import Answered
from benchmarks.chaos.replays import losses
from benchmarks.chaos.replies import Reply
from benchmarks.chaos.soak.judged import judge as judge_soak
from benchmarks.chaos.soak.samples import Sample
from benchmarks.chaos.soak.trend import trend
from benchmarks.chaos.verdict import judge


def event(text: str, finish: str | None = None, top: dict[str, float] | None = None) -> dict[str, Any]:
    logprobs = None if top is None else {"tokens": [text], "top_logprobs": [top]}
    choice = {"index": 0, "text": text, "finish_reason": finish, "logprobs": logprobs}
    return {"id": "cmpl-1", "choices": [choice], "usage": {"completion_tokens": len(text)}}


def reply(*events: dict[str, Any]) -> Reply:
    got = Reply(1, 0.0)
    for at, each in enumerate(events):
        got.take(each, float(at))
    got.close()
    return got


WHOLE = reply(event("a", top={"a": -0.1, "b": -2.1}), event("b", "length", top={"b": -0.5, "c": -0.75}))


def test_the_same_answer_in_other_pieces_is_identical() -> None:
    expected, got = reply(event("abc", "length")), reply(event("a"), event("bc"), event("", "length"))
    expected.tokens = got.tokens = 3
    assert judge([Answered(0, [got])], [expected]).passed


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ([event("ab")], "without a final event"),
        ([event("ab", "length"), event("c")], "after a choice's final event"),
        ([event("ab", "length"), event("", "length")], "after a choice's final event"),
    ],
)
def test_an_answer_has_one_final_event(events: list[dict[str, Any]], complaint: str) -> None:
    verdict = judge([Answered(0, [reply(*events)])], [WHOLE])
    assert complaint in verdict.failures[0]
    assert verdict.complete == verdict.identical == 0


def test_a_difference_tells_how_near_it_was() -> None:
    other = reply(event("a", top={"a": -0.1, "b": -2.1}), event("c", "length", top={"c": -0.5, "b": -0.75}))
    (difference,) = judge([Answered(0, [other])], [WHOLE]).differences
    assert (difference.character, difference.margin) == (1, 0.25)
    assert (difference.expected, difference.got) == ("b", "c")


def test_another_end_of_the_same_text_is_a_difference() -> None:
    stopped = reply(event("a"), event("b", "stop"))
    plain = reply(event("a"), event("b", "length"))
    assert not judge([Answered(0, [stopped])], [plain]).passed


@pytest.mark.parametrize(("text", "same"), [("a", True), ("x", False)])
def test_what_broke_off_is_how_the_whole_answer_begins(text: str, same: bool) -> None:
    expected = reply(event("ab", "length"))
    broken = reply(event(text))
    verdict = judge([Answered(0, [broken, expected])], [expected])
    assert verdict.retries == 1
    assert verdict.passed == same


def test_what_is_left_over_is_told() -> None:
    before = Footprint(0, (), {"Verifier": 2}, {"CREATED": 2}, {"Verifier": 2}, {"X, LOCAL": 10})
    assert before.left_over(before) == []
    after = Footprint(
        1, ("3 != 4",), {"Verifier": 2, "X": 1}, {"CREATED": 1}, {"Verifier": 3}, {"X, LOCAL": 12}
    )
    assert after.left_over(before) == [
        "1 unfinished requests",
        "blocks of an engine: 3 != 4",
        "actors X: 1, before 0",
        "processes Verifier: 3, before 2",
        "objects X, LOCAL: 12, before 10",
    ]


def test_losses_are_read_from_the_log(tmp_path: Path) -> None:
    fields = {"message": "a request has lost its verifier", "request_id": "cmpl-abc-0"}
    line = json.dumps({"time": "2026-01-01T00:00:01.500+00:00", **fields})
    (tmp_path / "worker-1.err").write_text(f"noise\n{line}\n" + json.dumps({"message": "ready"}) + "\n")
    (loss,) = losses(tmp_path)
    assert (loss.answer, loss.at % 60) == ("cmpl-abc", 1.5)


def test_a_slope_is_told_from_what_comes_and_goes() -> None:
    minutes = [0.1 * i for i in range(100)]
    waves = [100 + (i % 7) for i in range(100)]
    assert not trend(minutes, waves).grows
    growing = trend(minutes, [wave + 2 * minute for wave, minute in zip(waves, minutes, strict=True)])
    assert growing.grows
    assert growing.slope == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize(
    ("role", "whose", "troubles"),
    [("Router", "the service", ["the service's memory grows by 2.00 MB a minute"]), ("raylet", "Ray", [])],
)
def test_a_soak_fails_for_the_service_s_memory_and_tells_of_ray_s(
    role: str, whose: str, troubles: list[str]
) -> None:
    steady = {"Router": 150.0, "raylet": 90.0}
    samples = [Sample(at, steady | {role: steady[role] + 2 * at}, 50, 7) for at in (1.0, 2.0, 3.0)]
    judged = judge_soak(samples, answers=9, failures=(), service={"Router"})
    assert judged.troubles == troubles
    assert {name: each.grows for name, each in judged.whose.items()} == {
        name: name == whose for name in ("the service", "Ray")
    }
    assert f"{whose} +2.00" in judged.verdict
    assert ("raylet +2.00" in judged.verdict) == (role == "raylet")


@pytest.mark.parametrize(
    ("opened", "troubles"),
    [
        ([0] * 10 + [2] * 10, []),  # one connection
        (range(0, 40, 2), ["open files grow by 2.00 a minute"]),
    ],
)
def test_a_late_connection_is_no_leak(opened: Sequence[int], troubles: list[str]) -> None:
    samples = [Sample(at, {"Router": 150.0}, 2186 + more, 7) for at, more in enumerate(opened)]
    assert judge_soak(samples, answers=9, failures=(), service={"Router"}).troubles == troubles
