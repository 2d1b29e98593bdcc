"""`python -m benchmarks speed` from the command line to its files, on a tiny model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from question_files import write_questions

KEYS = {"task", "method", "concurrency", "tokens_per_s", "speedup_vs_plain", "tau", "identical"}
ENGINE_METHODS = {"plain", "prompt_lookup", "eagle3", "eagle3_lookup"}


def speed(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A process of its own: thread settings must be in place before torch is loaded."""
    command = [sys.executable, "-m", "benchmarks", "speed", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    folder = tmp_path / "questions"
    for task in ("alpaca", "cnn_dm"):
        write_questions(folder, task, [[f"{task} {i}: say one two one two"] for i in range(2)])
    return folder


def common(questions: Path, model: Path) -> list[str | Path]:
    tasks = ["--tasks", "alpaca,cnn_dm", "--limit", "2", "--repeats", "1", "--max-tokens", "12"]
    return ["--questions", questions, "--model", model, "--dtype", "float32", *tasks]


def by_section(path: Path) -> dict[str, list[dict[str, Any]]]:
    sections: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(path.read_text())["rows"]:
        sections.setdefault(row["section"], []).append(row)
    return sections


def test_the_engine_alone(questions: Path, tiny_model: Path, tiny_head: Path, tmp_path: Path) -> None:
    result, figure = tmp_path / "speed.json", tmp_path / "speed.svg"
    options = ["--through", "engine", "--sections", "tasks,batch,breakdown,tau", "--head", tiny_head]
    options += ["--set", "speculation.num_speculative_tokens=5"]  # a random head is not worth a draft
    files: list[str | Path] = ["--concurrency", "1,2", "--json", result, "--figure", figure]
    done = speed(*common(questions, tiny_model), *options, *files)
    assert done.returncode == 0, done.stderr
    sections = by_section(result)
    tasks = sections["tasks"]
    assert {(row["task"], row["method"]) for row in tasks} == {
        (task, method) for task in ("alpaca", "cnn_dm", "all") for method in ENGINE_METHODS
    }
    assert all(row.keys() >= KEYS for rows in sections.values() for row in rows)
    assert all(row["tokens_per_s"] > 0 and row["identical"] == 1 for row in tasks + sections["batch"])
    assert {row["tau"] for row in tasks if row["method"] == "plain"} == {1.0}
    assert {(row["method"], row["concurrency"]) for row in sections["batch"]} == {
        (method, size) for method in ENGINE_METHODS for size in (1, 2)
    }
    assert all(row["phases_ms"]["forward"] > 0 for row in sections["breakdown"])
    assert {row["concurrency"] for row in sections["breakdown"]} == {1, 8}
    assert all(row["draft_share"] > 0 for row in sections["breakdown"] if row["method"] == "eagle3")
    taus = {(row["task"], row["num_speculative_tokens"]): row["tau"] for row in sections["tau"]}
    assert {task for task, _ in taus} == {"alpaca", "cnn_dm", "all"}
    assert taus["all", 8] >= 1.0
    assert "prompt_lookup / plain, cnn_dm" in done.stdout
    assert figure.read_text().startswith("<?xml")
    report = json.loads(result.read_text())
    assert report.keys() >= {"command", "commit", "date", "machine", "versions", "settings"}
    assert report["command"].startswith("python -m benchmarks speed --questions ")
    planned, last = re.findall(r"(\d+) timed runs", done.stdout), re.findall(r"(\d+)/(\d+)", done.stderr)[-1]
    assert (planned[0], planned[0]) == last


@pytest.mark.slow
@pytest.mark.ray
def test_the_whole_service(questions: Path, tiny_model: Path, tiny_head: Path, tmp_path: Path) -> None:
    result = tmp_path / "speed.json"
    options: list[str | Path] = [
        "--sections",
        "memory,tasks,transformers,batch",
        "--concurrency",
        "1,2",
        "--head",
        tiny_head,
        "--json",
        result,
    ]
    done = speed(*common(questions, tiny_model), *options)
    assert done.returncode == 0, done.stderr
    sections = by_section(result)
    assert {row["method"] for row in sections["tasks"]} == ENGINE_METHODS | {
        "plain_http",
        "prompt_lookup_pool_http",
        "eagle3_lookup_pool_http",
        "eagle3_lookup_colocated_http",
        "transformers",
    }
    assert "plain / transformers" in done.stdout
    assert all(row["identical"] == 1 for row in sections["tasks"] + sections["batch"])
    roles = {row["role"]: row["pss_bytes"] for row in sections["memory"]}
    assert roles.keys() >= {"EngineWorker", "DrafterWorker", "Router", "raylet", "total"}
    assert roles["total"] == pytest.approx(sum(roles.values()) / 2, rel=1e-5)


def test_questions_must_be_named(run_here: Any) -> None:
    done = run_here("speed")
    assert done.status == 2
    assert "--questions is required: a folder with one file TASK.jsonl per task" in done.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--tasks", "poetry"], "poetry.jsonl cannot be read"),
        (["--json", "no/such/folder/a.json"], "there is no folder"),
        (["--figure", "speed.gif"], "must end in .png, .svg, .pdf"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    run_here: Any, questions: Path, arguments: list[str], complaint: str
) -> None:
    done = run_here("speed", "--questions", questions, *arguments)
    assert done.status == 1
    assert done.err.splitlines()[-1].startswith("error: ")
    assert complaint in done.err


def test_a_model_that_there_is_not_is_one_line_too(questions: Path) -> None:
    asked = ["--sections", "tasks", "--through", "engine", "--tasks", "alpaca"]
    done = speed("--questions", questions, *asked, "--model", "no-such-model")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "no-such-model" in done.stderr


def test_the_wrong_line_of_a_file_is_named(run_here: Any, questions: Path) -> None:
    with (questions / "cnn_dm.jsonl").open("a") as file:
        file.write("{}")
    done = run_here("speed", "--questions", questions, "--tasks", "alpaca,cnn_dm")
    assert done.status == 1
    assert "cnn_dm.jsonl, line 3: question_id" in done.err


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--limit", "0"), ("--concurrency", "1,x"), ("--sections", "speed"), ("--through", "")],
)
def test_wrong_values_name_their_flag(run_here: Any, questions: Path, flag: str, value: str) -> None:
    done = run_here("speed", "--questions", questions, flag, value)
    assert done.status == 2
    assert flag in done.err.splitlines()[-1]
