"""`benchmarks chaos` and `soak` end to end, at a small size: on a Ray cluster of several nodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.chaos.options import SCENARIOS

pytestmark = pytest.mark.slow  # the cluster is one of its own: not the session's

SMALL = ["--drafters", "1", "--max-tokens", "120"]


@pytest.mark.timeout(900)
def test_nothing_is_lost_whatever_dies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "chaos.json"
    sizes = ["--requests", "24", "--concurrency", "6", "--failovers", "3"]
    code = main(["chaos", *sizes, *SMALL, "--json", str(report)])
    said = capsys.readouterr()
    rows = {row["method"]: row for row in json.loads(report.read_text())["rows"]}
    assert rows.keys() == set(SCENARIOS)
    assert {name: row["passed"] for name, row in rows.items()} == dict.fromkeys(SCENARIOS, True), said.out
    assert code == 0
    assert rows["kills"]["identical"] == 1
    assert sum(rows["kills"]["kills"].values()) >= 1
    assert rows["failover"]["gap_p50_s"] <= rows["failover"]["limit_s"]
    assert "The service while its parts die" in said.out


@pytest.mark.timeout(300)
def test_a_soak_tells_what_grows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A minute is too short to judge: what is tested is that everything is measured and told."""
    report, figure = tmp_path / "soak.json", tmp_path / "soak.svg"
    sizes = ["--minutes", "0.5", "--warm-up", "0.2", "--every-s", "2", "--tensor-parallel-size", "1"]
    main(["soak", *sizes, *SMALL, "--json", str(report), "--figure", str(figure)])
    rows = {row["method"]: row for row in json.loads(report.read_text())["rows"]}
    assert {"memory, all", "memory of EngineWorker", "open files", "objects", "all"} <= rows.keys()
    assert rows["all"]["answers"] > 0
    assert not any("failed" in trouble for trouble in rows["all"]["troubles"])
    assert rows["memory, all"]["mean"] > rows["memory of EngineWorker"]["mean"] > 50
    assert rows["open files"]["mean"] > 100
    assert figure.stat().st_size > 1000
    assert "slope a minute" in capsys.readouterr().out
