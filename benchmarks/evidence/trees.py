"""Value and reranking: EAGLE-2's Table 3."""

from __future__ import annotations

from benchmarks.evidence.markdown import interval, table
from benchmarks.evidence.order import Ranked, verdict
from benchmarks.evidence.reasons import TREES
from benchmarks.evidence.results import Report, Results
from benchmarks.evidence.section import Section

COMMAND = "python -m benchmarks ablation --questions QUESTIONS --part tree"
PAPER = (
    "EAGLE-2, Table 3 (Vicuna 7B, MT-bench and GSM8K, temperature 0): without value, nodes are ranked by "
    "their own confidence; without reranking, the expanded nodes are verified. In the paper each of the two "
    "raises tau and speed-up. All trees here have the same number of draft tokens, and all are of the "
    "shipped head."
)
ORDER = ("full", "no rerank", "confidence only", "neither")


def section(results: Results) -> Section:
    report = results.report("ablation/tree")
    title = "Trees without value and without reranking"
    if report is None:
        return Section(title, PAPER, COMMAND)
    return Section(title, PAPER, COMMAND, (_table(report), *_verdicts(report), *TREES), report.origin)


def _table(report: Report) -> str:
    rows = [
        [
            row["method"],
            str(row["m"]),
            f"{row['tau']:.2f} {interval(row['tau_interval'])}",
            f"{row['vs_full']:+.3f} {interval(row['vs_full_interval'])}",
            f"{row['draft_tokens'] / row['verifications']:.1f}",
        ]
        for row in report.rows
    ]
    header = ["trees", "m", "tau", "tau above full, paired", "draft tokens a step"]
    return table(header, rows)


def _verdicts(report: Report) -> list[str]:
    said = []
    for m in dict.fromkeys(row["m"] for row in report.rows):
        own = {row["method"]: row for row in report.rows if row["m"] == m}
        said.append(f"m = {m}: {verdict([Ranked(name, own[name]['tau']) for name in ORDER], 3)}")
    return said
