"""`benchmarks load` end to end at a tiny size, and how it tells when m has settled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.load.settle import settled


def test_every_load_is_run_every_way_and_answers_agree(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = [{"question_id": i, "category": "c", "turns": [f"say abc {i}"]} for i in range(3)]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))
    report, figure = tmp_path / "load.json", tmp_path / "load.svg"
    options = [
        "--questions",
        str(tmp_path),
        "--tasks",
        "mine",
        "--model",
        str(tiny_model),
        "--dtype",
        "float32",
    ]
    sizes = ["--max-tokens", "8", "--concurrency", "1,3", "--rates", "50", "--fixed", "2", "--repeats", "2"]
    sizes += ["--urgent", "0.5", "--floors", "0.9"]
    kept = [
        "--dtype",
        "float32",
        "--set",
        "engine.num_threads=1",
        "--json",
        str(report),
        "--figure",
        str(figure),
    ]
    assert main(["load", *options, *sizes, *kept]) == 0
    rows = json.loads(report.read_text())["rows"]
    assert {(row["load"], row["method"]) for row in rows} == {
        (load, method)
        for load in ("1 clients", "3 clients", "50 requests/s")
        for method in ("plain", "m = 2", "auto", "latency, 0.9 left")
    }
    assert all(row["identical"] == 1.0 and row["tokens_per_s"] > 0 for row in rows)
    plain, fixed, auto = (
        next(r for r in rows if r["load"] == "3 clients" and r["method"] == m)
        for m in ("plain", "m = 2", "auto")
    )
    assert plain["m"] == 0
    assert fixed["m"] > 0
    assert auto["ratio_to_best"]["best"] in ("plain", "m = 2")
    assert auto["step_time_error"] is not None
    for against, method in ((row["against_auto"], row["method"]) for row in rows):
        assert against["urgent_tokens_per_s"] > 0 < against["others_tokens_per_s"]
        ratios = [against[f"{who}_ratio"]["value"] for who in ("urgent", "others", "all")]
        assert (ratios == [1.0] * 3) is (method == "auto")
    printed = capsys.readouterr().out
    assert "identical" in printed
    assert "Tokens per second of one urgent request" in printed
    assert figure.stat().st_size > 1000


@pytest.mark.parametrize(
    ("ms", "settled_after"),
    [
        ([4.0] * 60, 0),
        ([0.0] * 12 + [4.0] * 48, 10),  # the median of five steps follows the third of them
        ([4.0, 3.9, 4.2] * 20, 0),
    ],
)
def test_when_m_has_settled(ms: list[float], settled_after: int) -> None:
    result = settled(ms)
    assert result.after_steps == settled_after
    assert result.away_afterwards == 0


def test_what_flutters_never_settles() -> None:
    assert settled(([4.0] * 8 + [0.0] * 8) * 4).away_afterwards > 0
