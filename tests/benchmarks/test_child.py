"""Processes that answer lines: replies, errors and ends reach the caller."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.child import Child
from benchmarks.errors import BenchmarkError

MODULE = """
import os, sys
from benchmarks.child import serve_lines

def answer(question):
    print("noise of a library")
    if question == "fail":
        raise ValueError("no such thing")
    if question == "die":
        print("last words", file=sys.stderr, flush=True)
        os._exit(3)
    return {"echo": question}

serve_lines(answer)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "answering.py").write_text(MODULE)
    return dict(os.environ) | {"PYTHONPATH": str(tmp_path)}


def test_every_line_is_answered(environment: dict[str, str]) -> None:
    with Child("answering", environment) as child:
        assert [child.ask(question)["echo"] for question in ([1], "two")] == [[1], "two"]
        pid = child.pid
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(("question", "complaint"), [("fail", "no such thing"), ("die", "last words")])
def test_failures_are_told(environment: dict[str, str], question: str, complaint: str) -> None:
    with Child("answering", environment) as child:
        child.ask("hello")
        with pytest.raises(BenchmarkError, match=rf"(?s)answering .*{complaint}"):
            child.ask(question)
        with pytest.raises(BenchmarkError, match="answering ended by itself"):
            child.ask("anyone there?")
