"""`python -m benchmarks evaluate` from the command line to its files, on a tiny model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from question_files import write_questions

METHODS = [
    "plain",
    "draft_model",
    "prompt_lookup",
    "eagle1_static",
    "eagle2_dynamic",
    "eagle3",
    "eagle3_lookup",
]


def evaluate(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A process of its own: thread settings must be in place before torch is loaded."""
    command = [sys.executable, "-m", "benchmarks", "evaluate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    folder = tmp_path / "questions"
    write_questions(folder, "mt_bench", [["one two one two", "and again one two"]])
    write_questions(folder, "alpaca", [["say one two one two"], ["say two one two one"], ["not asked"]])
    return folder


def report_of(path: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(path.read_text())
    return report


def test_every_method_and_going_on_after_an_interruption(
    questions: Path, tiny_model: Path, tiny_head: Path, tiny_eagle1_head: Path, tmp_path: Path
) -> None:
    out, log = tmp_path / "evaluation.json", tmp_path / "evaluation.rows.jsonl"
    arguments: list[str | Path] = [
        *("--questions", questions, "--tasks", "mt_bench,alpaca", "--limit", "2", "--max-tokens", "24"),
        *("--temperature", "0,1", "--model", tiny_model, "--head", tiny_head, "--draft-model", tiny_model),
        *("--eagle1-head", tiny_eagle1_head, "--dtype", "float32", "--out", out),
        *("--set", "engine.num_threads=1", "speculation.num_speculative_tokens=5"),
    ]
    done = evaluate(*arguments)
    assert done.returncode == 0, done.stderr
    assert "(6 of 6 questions are left)" in done.stdout
    assert "56/56" in done.stderr  # two temperatures, four turns, seven methods
    report = report_of(out)
    assert report.keys() >= {"command", "commit", "machine", "settings", "rows"}
    assert report["settings"]["methods"]["eagle1_static"]["fingerprint"]
    _check_rows(report["rows"])

    log.write_text(log.read_text()[:-10])  # the last line of the last question is cut
    again = evaluate(*arguments)
    assert again.returncode == 0, again.stderr
    assert "(1 of 6 questions are left)" in again.stdout
    kept = slice(4 * len(METHODS))  # all but the last task at temperature 1, and the sums with it
    assert report_of(out)["rows"][kept] == report["rows"][kept]
    _check_rows(report_of(out)["rows"])


def _check_rows(rows: list[dict[str, Any]]) -> None:
    tasks = ("mt_bench", "alpaca", "all")
    assert [(row["temperature"], row["task"], row["method"]) for row in rows] == [
        (temperature, task, method) for temperature in (0, 1) for task in tasks for method in METHODS
    ]
    assert {row["task"]: row["answers"] for row in rows} == {"mt_bench": 2, "alpaca": 2, "all": 4}
    for row in rows:
        assert row["identical"] == 1.0
        assert row["differences"] == []
        assert row["tokens_per_s"] > 0
        assert row["tokens"] == row["committed_tokens"] + row["answers"]  # the first came with the prompt
        assert row["tau"] == pytest.approx(row["committed_tokens"] / row["verifications"], rel=1e-5)
        assert sum(row["accepted_by_depth"]) == row["accepted_tokens"]
        assert all(0 <= share <= 1 for share in row["acceptance_by_depth"])
        low, high = row["speedup_interval"]
        assert low <= row["speedup_vs_plain"] <= high
    by_method = {row["method"]: row for row in rows if row["task"] == "all" and row["temperature"] == 0}
    assert (by_method["plain"]["tau"], by_method["plain"]["draft_tokens"]) == (1, 0)
    assert by_method["draft_model"]["acceptance_by_depth"][:2] == [1, 1]  # it is the model itself
    assert all(by_method[method]["draft_tokens"] > 0 for method in METHODS[3:])


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{}\n", "poetry.jsonl, line 1: question_id must be"),
        ("", "poetry.jsonl has no questions; expected a"),
    ],
)
def test_a_wrong_or_empty_question_file_is_refused(
    run_here: Any, tmp_path: Path, line: str, complaint: str
) -> None:
    """S25: in one sentence, before anything is loaded."""
    (tmp_path / "poetry.jsonl").write_text(line)
    done = run_here("evaluate", "--questions", tmp_path, "--tasks", "poetry", "--out", tmp_path / "a.json")
    assert done.status == 1
    (said,) = done.err.splitlines()
    assert said.startswith("error: ")
    assert complaint in said
    assert not (tmp_path / "a.rows.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--out", "a.json"], "--questions is required"),
        (["--questions", "."], "--out is required"),
        (["--questions", ".", "--out", "a.json", "--temperature", "0,hot"], "--temperature"),
        (["--questions", ".", "--out", "a.json", "--temperature=-1"], "--temperature"),
    ],
)
def test_wrong_values_name_their_flag(run_here: Any, arguments: list[str], complaint: str) -> None:
    done = run_here("evaluate", *arguments)
    assert done.status == 2
    assert complaint in done.err.splitlines()[-1]
