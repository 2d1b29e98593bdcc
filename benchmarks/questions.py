"""Question files: one JSON object a line, as the speculative decoding papers publish their tasks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks.errors import BenchmarkError

FORMAT = (
    "a folder with one file TASK.jsonl per task, each line a JSON object with `question_id`, `category` (a "
    "string) and `turns` (a list of strings)"
)


@dataclass(frozen=True, slots=True)
class Question:
    question_id: int | str
    category: str
    turns: tuple[str, ...]


def read_questions(folder: Path, task: str) -> list[Question]:
    """All questions of a task. Raises BenchmarkError naming the file and the line that is wrong."""
    path = folder / f"{task}.jsonl"
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # splitlines would cut at U+2028 too
    except (OSError, UnicodeDecodeError) as error:
        raise BenchmarkError(f"{path} cannot be read ({error}); expected {FORMAT}") from None
    questions = [_parse(line, f"{path}, line {i}") for i, line in enumerate(lines, 1) if line.strip()]
    if not questions:
        raise BenchmarkError(f"{path} has no questions; expected {FORMAT}")
    return questions


def _parse(line: str, where: str) -> Question:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise BenchmarkError(f"{where}: not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BenchmarkError(f"{where}: not a JSON object")
    question_id, category, turns = (fields.get(name) for name in ("question_id", "category", "turns"))
    if isinstance(question_id, bool) or not isinstance(question_id, int | str):
        raise BenchmarkError(f"{where}: question_id must be a number or a string")
    if not isinstance(category, str):
        raise BenchmarkError(f"{where}: category must be a string")
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) and turn for turn in turns):
        raise BenchmarkError(f"{where}: turns must be a list of non-empty strings, and not an empty one")
    return Question(question_id, category, tuple(turns))
