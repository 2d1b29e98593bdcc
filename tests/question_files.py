"""Small question files for whole runs of benchmarks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path


def write_questions(folder: Path, task: str, turns: Sequence[Sequence[str]]) -> None:
    """A file of one question per element of `turns`."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"question_id": i, "category": "", "turns": list(t)}) for i, t in enumerate(turns)]
    (folder / f"{task}.jsonl").write_text("\n".join(lines) + "\n")
