"""What the evaluation counts, and keeps of an interrupted run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.evaluate.log import TrialLog
from benchmarks.evaluate.rows import rows
from benchmarks.evaluate.trials import Place, Trial
from benchmarks.identity import Difference
from benchmarks.questions import Question
from serving.types import SpeculationStats

SETTINGS = {"max_tokens": 64, "methods": {"plain": {}, "eagle3": {}}}
METHODS = ["plain", "eagle3"]


def place(number: int, temperature: float = 0.0) -> Place:
    return Place.of("gsm8k", Question(number, "", (f"question {number}",)), temperature)


def trial(at: Place, method: str, seconds: float, stats: SpeculationStats) -> Trial:
    return Trial(at, method, 1, 41, 0.5, seconds, stats, (), "abc")


def plain(at: Place, seconds: float) -> Trial:
    return trial(at, "plain", seconds, SpeculationStats(steps=40, committed_tokens=40))


LONG = SpeculationStats(10, 40, 50, 30, [10, 10, 10], [10, 10, 10])
SHORT = SpeculationStats(40, 40, 20, 0, [], [20])


@pytest.fixture
def log(tmp_path: Path) -> TrialLog:
    log = TrialLog(tmp_path / "log.jsonl", SETTINGS, METHODS)
    log.add([plain(place(1), 4.0), trial(place(1), "eagle3", 1.0, LONG)])
    log.add([plain(place(2), 40.0), trial(place(2), "eagle3", 20.0, SHORT)])
    return log


def test_tau_is_the_mean_over_all_verifications(log: TrialLog) -> None:
    """S25: neither the last question's, nor a mean of the questions'. Ratios are by question."""
    row = next(row for row in rows([place(1), place(2)], METHODS, log) if row.method == "eagle3")
    assert row.tau == 80 / 50
    assert row.speedup_vs_plain == 3.0
    assert row.special["speedup_interval"] == [2.0, 4.0]
    assert row.special["offered_by_depth"] == [30, 10, 10]
    assert row.special["acceptance_by_depth"] == [1 / 3, 1.0, 1.0]


def test_what_is_read_is_what_was_written(log: TrialLog, tmp_path: Path) -> None:
    differs = replace(
        trial(place(3), "eagle3", 2.0, LONG), differences=(Difference("gsm8k", 3, 17, 1e-4, turn=2),)
    )
    log.add([plain(place(3), 1.0), differs])
    again = TrialLog(tmp_path / "log.jsonl", SETTINGS, METHODS)
    places = [place(3), place(1)]
    for method in METHODS:
        assert again.of(places, method) == log.of(places, method)
    assert again.of(places, "eagle3")[0] == differs


def test_other_temperatures_and_other_texts_are_other_places(log: TrialLog) -> None:
    assert place(1) in log
    assert place(1, temperature=1.0) not in log
    assert Place.of("gsm8k", Question(1, "", ("another text",)), 0.0) not in log


@pytest.mark.parametrize("cut", [1, 400])
def test_a_place_without_all_methods_is_asked_again(log: TrialLog, tmp_path: Path, cut: int) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(path.read_text()[:-cut])
    again = TrialLog(path, SETTINGS, METHODS)
    assert place(1) in again
    assert place(2) not in again
    again.add([plain(place(2), 8.0), trial(place(2), "eagle3", 8.0, SHORT)])
    assert [each.seconds for each in TrialLog(path, SETTINGS, METHODS).of([place(2)], "plain")] == [8.0]


def test_trials_of_other_settings_are_refused(log: TrialLog, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"other settings \(max_tokens: 64, now 128\); remove it or"):
        TrialLog(tmp_path / "log.jsonl", SETTINGS | {"max_tokens": 128}, METHODS)


@pytest.mark.parametrize("text", ["nonsense\n", "{}\n[1]\n", '{}\n{"task": "gsm8k"}\n'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "log.jsonl").write_text(text)
    with pytest.raises(BenchmarkError, match="holds no trials"):
        TrialLog(tmp_path / "log.jsonl", {}, METHODS)
