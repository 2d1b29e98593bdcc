"""Speed-up and tau on the six tasks: EAGLE-2's Table 1 and EAGLE-3's Table 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.evaluate.methods import EAGLE1, EAGLE2, LEGEND
from benchmarks.evidence import papers
from benchmarks.evidence.markdown import speedup_and_tau, table
from benchmarks.evidence.order import Ranked, verdict
from benchmarks.evidence.reasons import SPEEDUPS
from benchmarks.evidence.results import Report, Results
from benchmarks.evidence.section import Section
from benchmarks.report import ALL_TASKS
from benchmarks.speed.methods import EAGLE3, EAGLE3_LOOKUP, PLAIN, PROMPT_LOOKUP

# One with the same m for all methods, which tau is to be compared at; one with m as the service chooses it.
REPORTS = ("evaluate", "evaluate_auto")
COMMAND = "python -m benchmarks evaluate --questions QUESTIONS --temperature 0,1 --out evaluate.json"
NAMES = {
    PROMPT_LOOKUP: "prompt lookup",
    EAGLE1: "EAGLE-1, static tree",
    EAGLE2: "EAGLE-2, the same head",
    EAGLE3: "EAGLE-3",
    EAGLE3_LOOKUP: "EAGLE-3 with prompt lookup",
}
RANKING = (EAGLE3, EAGLE2, EAGLE1)


def section(results: Results, temperature: float) -> Section:
    found = [report for name in REPORTS if (report := results.report(name)) is not None]
    reports = [report for report in found if report.find(temperature=temperature) is not None]
    title = f"Speed-up and tau, temperature {temperature:g}"
    paper = (
        "EAGLE-2, Table 1, and EAGLE-3, Table 1 (bars of them are EAGLE-2's Figures 1 and 2 and EAGLE-3's "
        f"Figure 2): speed-up over plain decoding / tau, at temperature {temperature:g}. EAGLE-3 has five of "
        "the six tasks."
    )
    theirs = _theirs(temperature)
    if not reports:
        return Section(title, paper, COMMAND, (theirs,))
    ours = [
        text for report in reports for text in (_ours(report, temperature), *_verdicts(report, temperature))
    ]
    origin = "; ".join(report.origin for report in reports)
    return Section(title, paper, COMMAND, (theirs, *ours, *SPEEDUPS), origin)


def _theirs(temperature: float) -> str:
    rows = []
    for line in papers.SPEEDUPS:
        if line.temperature == temperature:
            cells = [speedup_and_tau(*cell) for cell in line.cells]
            blank = [""] * (len(papers.TASKS) - len(cells))
            rows.append([f"{line.name} ({line.model}, in {line.paper})", *cells, *blank])
    return table(["theirs", *papers.TASKS.values()], rows)


def _ours(report: Report, temperature: float) -> str:
    tasks = [*papers.TASKS, ALL_TASKS]
    rows = []
    for method in dict.fromkeys(row["method"] for row in report.rows):
        found = [report.find(task=task, method=method, temperature=temperature) for task in tasks]
        cells = [speedup_and_tau(row["speedup_vs_plain"], row["tau"]) if row else "" for row in found]
        if method != PLAIN:
            rows.append([NAMES.get(method, LEGEND.get(method, method)), *cells])
    return table([f"ours, {_how_many(report)}", *papers.TASKS.values(), "all"], rows)


def _how_many(report: Report) -> str:
    m = _fixed_m(report)
    return "m chosen in every step" if m is None else f"m = {m}"


def _fixed_m(report: Report) -> str | None:
    name = "speculation.num_speculative_tokens="
    fixed = [each.removeprefix(name) for each in report.settings.get("set", ()) if each.startswith(name)]
    return fixed[-1] if fixed else None


def _verdicts(report: Report, temperature: float) -> Iterator[str]:
    """Of the same m for all: where each chooses its own, what drafts badly hardly drafts."""
    if _fixed_m(report) is None:
        return
    for what, name in (("tau", "tau"), ("speed-up", "speedup_vs_plain")):
        ranked = _ranked(report, temperature, name)
        if len(ranked) > 1:
            yield f"By {what} over all tasks, {_how_many(report)}: {verdict(ranked)}"


def _ranked(report: Report, temperature: float, name: str) -> Sequence[Ranked]:
    found = {m: report.find(task=ALL_TASKS, method=m, temperature=temperature) for m in RANKING}
    return [Ranked(NAMES[method], row[name]) for method, row in found.items() if row and row[name]]
