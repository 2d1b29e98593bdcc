"""`python -m benchmarks peers` from the command line to its file, on a tiny model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from question_files import write_questions
from tiny_tokenizers import byte_level

from benchmarks.errors import BenchmarkError
from benchmarks.peers.vllm import Loaded, Vllm
from serving.router.tokenizer import Tokenizer


def peers(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A process of its own: thread settings must be in place before torch is loaded."""
    command = [sys.executable, "-m", "benchmarks", "peers", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
def test_every_system_says_the_same(tiny_model: Path, tmp_path: Path) -> None:
    questions, result = tmp_path / "questions", tmp_path / "peers.json"
    write_questions(questions, "alpaca", [["say one two one two"], ["two"], ["one two three"]])
    done = peers(
        *("--questions", questions, "--tasks", "alpaca", "--model", tiny_model, "--dtype", "float32"),
        *("--batch", "1,3", "--repeats", "1", "--max-tokens", "8", "--set", "engine.num_threads=1"),
        *("--draft-model", tiny_model, "--json", result),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(result.read_text())
    assert (report["settings"]["dtype"], report["settings"]["threads"]) == ("float32", 1)
    rows = {(row["method"], row["concurrency"]): row for row in report["rows"]}
    systems = ("canopy plain", "canopy", "transformers", "transformers lookup", "transformers assisted")
    assert rows.keys() == {(system, size) for system in systems for size in (1, 3)}
    measured = [row for row in rows.values() if row["tokens_per_s"] is not None]
    assert len(measured) == 8
    assert all(row["tokens_per_s"] > 0 and row["canopy_vs_this"] > 0 for row in measured)
    assert all(row["identical"] == 1.0 for row in measured)
    assert rows["transformers lookup", 3]["why_not"] == "transformers drafts for one prompt alone"
    assert "transformers assisted: transformers drafts for one prompt alone" in done.stdout
    assert "vllm: not measured" in done.stdout


@pytest.mark.parametrize(
    ("python", "complaint"),
    [
        (sys.executable, "benchmarks.vllm_process failed: No module named 'vllm'"),
        ("no/such/python", "no/such/python cannot be run: "),
    ],
)
def test_an_environment_without_vllm_is_refused(tiny_model: Path, python: str, complaint: str) -> None:
    loaded = Loaded(str(tiny_model), "float32", (2,), 2048, 1)
    with pytest.raises(BenchmarkError, match=complaint):
        Vllm(python, loaded, Tokenizer(byte_level()), 8, "auto")
