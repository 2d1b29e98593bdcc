"""Question files, right and wrong: an error names the file and the line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.questions import Question, read_questions

GOOD = {"question_id": 7, "category": "math", "turns": ["What is 1 + 1?", "And 2 + 2?"], "reference": ["2"]}


def write(folder: Path, *lines: str) -> Path:
    (folder / "math.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_all_questions_in_order(tmp_path: Path) -> None:
    other = {"question_id": "b", "category": "", "turns": ["split\u2028here"]}
    folder = write(tmp_path, json.dumps(GOOD), "", json.dumps(other, ensure_ascii=False))
    assert read_questions(folder, "math") == [
        Question(7, "math", ("What is 1 + 1?", "And 2 + 2?")),
        Question("b", "", ("split\u2028here",)),
    ]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        (json.dumps(GOOD | {"question_id": None}), "question_id"),
        (json.dumps(GOOD | {"question_id": True}), "question_id"),
        (json.dumps(GOOD | {"category": 3}), "category"),
        (json.dumps(GOOD | {"turns": []}), "turns"),
        (json.dumps(GOOD | {"turns": "What?"}), "turns"),
        (json.dumps(GOOD | {"turns": ["What?", ""]}), "turns"),
        (json.dumps({key: GOOD[key] for key in ("question_id", "category")}), "turns"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    folder = write(tmp_path, json.dumps(GOOD), line)
    with pytest.raises(BenchmarkError, match=rf"math\.jsonl, line 2: .*{complaint}"):
        read_questions(folder, "math")


def test_a_file_without_questions_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"math\.jsonl has no questions; expected a folder"):
        read_questions(write(tmp_path, "", "  "), "math")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"code\.jsonl cannot be read .*expected a folder"):
        read_questions(tmp_path, "code")
