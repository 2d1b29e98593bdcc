"""`python -m benchmarks evidence`: the page follows from the results, whichever of them there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main
from benchmarks.evidence.order import Ranked, verdict
from benchmarks.evidence.results import Results, by_method

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results"
DOCS = ROOT / "docs"


def write(results: Path, out: Path) -> str:
    assert main(["evidence", "--results", str(results), "--out", str(out / "evidence.md")]) == 0
    return (out / "evidence.md").read_text()


def report(folder: Path, name: str, rows: list[dict[str, Any]], *settings: str) -> None:
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {"cores": 2, "processor": "a processor"}
    fields = {"command": "python -m benchmarks x", "commit": "c0ffee", "machine": machine}
    path.write_text(json.dumps(fields | {"rows": rows, "settings": {"set": settings}}))


def section(page: str, title: str) -> str:
    """From its title to the next."""
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_the_committed_page_is_what_the_committed_results_give(tmp_path: Path) -> None:
    page = write(RESULTS, tmp_path)
    assert page == (DOCS / "evidence.md").read_text(), "run `python -m benchmarks evidence`"
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    assert drawn == {path.name for path in (DOCS / "figures").glob("evidence_*")}
    assert all((DOCS / "figures" / name).stat().st_size < 60_000 for name in drawn)


def test_what_is_missing_is_said_and_no_error(tmp_path: Path) -> None:
    page = write(tmp_path / "nothing", tmp_path)
    assert page.count("Not measured: `python -m benchmarks ") == 10
    assert "| [Beside other systems](#beside-other-systems) | no |" in page
    assert "3.62x / 4.98" in page  # the papers' are there all the same
    assert not list((tmp_path / "figures").iterdir())


def test_speedups_are_set_beside_the_papers_and_ranked(tmp_path: Path) -> None:
    taus = {"plain": 1.0, "eagle1_static": 1.7, "eagle2_dynamic": 1.9, "eagle3": 1.8}
    rows = [
        {"task": task, "method": method, "temperature": 0.0, "tau": tau, "speedup_vs_plain": tau - 0.5}
        for task in ("mt_bench", "all")
        for method, tau in taus.items()
    ]
    report(tmp_path / "results", "evaluate", rows, "speculation.num_speculative_tokens=5")
    report(tmp_path / "results", "evaluate_auto", rows)
    page = write(tmp_path / "results", tmp_path)
    greedy = section(page, "Speed-up and tau, temperature 0")
    assert "| EAGLE-2, the same head | 1.40x / 1.90 |  |" in greedy
    said = "**Not the same order**: EAGLE-3 (1.80) is behind EAGLE-2, the same head (1.90)."
    assert f"By tau over all tasks, m = 5: {said}" in greedy
    assert greedy.count("By tau") == 1  # what chooses its own m is not ranked
    assert "commit c0ffee, 2 cores of a processor" in greedy
    assert "Not measured" in section(page, "Speed-up and tau, temperature 1")


def calibration(accepted: list[float], weight: float) -> list[dict[str, Any]]:
    """Rows of a head whose confidences are .25, .5 and .75."""
    bins = [
        {"confidence": 0.25 * (i + 1), "accepted": share, "weight": weight}
        for i, share in enumerate(accepted)
    ]
    shared = {"method": "head or draft model", "mode": "greedy", "observations": 3 * weight}
    errors = {"ece_raw": 0.1, "ece_calibrated": 0.05}
    return [shared | errors | {"depth": d, "bins_raw": bins, "bins_calibrated": bins} for d in (None, 1)]


def test_acceptance_may_fall_by_chance_and_no_further(tmp_path: Path) -> None:
    def said(weight: float) -> str:
        rows = calibration([0.2, 0.6, 0.5], weight)
        report(tmp_path / "results", "ablation/calibration", rows)
        return section(write(tmp_path / "results", tmp_path), "Confidence and acceptance")

    assert "**Same order**: acceptance rises with confidence" in said(weight=50)
    assert "**Not the same order**: acceptance falls from 0.60 to 0.50 at 0.75." in said(weight=5000)


def test_other_systems_that_are_ahead_are_named(tmp_path: Path) -> None:
    ahead = {("vllm", 4): 0.9, ("transformers", 4): 3.0, ("canopy plain", 4): 0.8, ("canopy", 4): 1.0}
    rows = [
        {
            "method": method,
            "concurrency": size,
            "tokens_per_s": 100.0,
            "canopy_vs_this": ratio,
            "canopy_vs_this_interval": [ratio - 0.1, ratio + 0.1],
        }
        for (method, size), ratio in ahead.items()
    ]
    alone = {"method": "transformers lookup", "concurrency": 4, "tokens_per_s": None, "why_not": "one alone"}
    report(tmp_path / "results", "peers", [*rows, alone])
    beside = section(write(tmp_path / "results", tmp_path), "Beside other systems")
    assert "**Behind**: vllm at 4." in beside
    assert "| transformers | 100.0 (3.00x [2.90, 3.10]) |" in beside
    assert "| transformers lookup | - |" in beside


def test_a_head_that_is_missing_leaves_out_what_it_is_compared_in(tmp_path: Path) -> None:
    results = tmp_path / "results"
    rates = {"eagle1": [0.5, 0.3, 0.25, 0.2, 0.2], "fused": [0.6, 0.4, 0.35, 0.3, 0.3]}
    for name, acceptance in (rates | {"eagle3": [0.6, 0.6, 0.57, 0.54, 0.5]}).items():
        head = {"method": name, "acceptance": acceptance, "tau": 2.0, "tau_interval": [1.9, 2.1]}
        report(results / "ablation", f"head-{name}", [head])
    page = write(results, tmp_path)
    for title in ("EAGLE-3 step by step", "Feature loss and training-time test", "More text to train on"):
        assert "Not measured" in section(page, title)
    alpha = section(page, "Acceptance by the head's own outputs in its input")
    assert "| EAGLE-1 | 0.500 | 0.300 | 0.250 | 0.200 | 0.200 | 60% |" in alpha
    assert "**Same order**: EAGLE-3: fused, training-time test 0.90 > EAGLE-1 0.40." in alpha
    assert (tmp_path / "figures" / "evidence_alpha.svg").stat().st_size < 60_000


def test_every_head_learned_as_much_and_met_as_much_text_as_it_is_said_to() -> None:
    """What makes the committed comparison fair."""
    rows = by_method(Results(RESULTS).reports("ablation/head-*"))
    whole = rows["eagle3"]["tokens"]
    assert {rows[name]["tokens"] for name in ("eagle1", "direct", "fused", "direct-ttt")} == {whole}
    for name, row in rows.items():
        met = row["tokens"] * row["epochs"]
        assert met == (row["tokens"] if name.endswith("-once") else whole)


def test_a_file_that_is_no_report_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "load.json").write_text("[]")
    assert main(["evidence", "--results", str(tmp_path), "--out", str(tmp_path / "evidence.md")]) == 1
    assert "load.json is no benchmark's report" in capsys.readouterr().err


def test_an_order_holds_where_nothing_is_behind_what_it_should_lead() -> None:
    assert verdict([Ranked("a", 2.0), Ranked("b", 2.0), Ranked("c", 1.0)]).startswith(
        "**Same order**: a 2.00"
    )
    wrong = verdict([Ranked("a", 2.0), Ranked("b", 1.0), Ranked("c", 1.5)])
    assert wrong == "**Not the same order**: b (1.00) is behind c (1.50)."
