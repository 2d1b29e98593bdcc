"""Heads that were trained for comparison: EAGLE-3's Table 2 and Figures 1, 4 and 7."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.ablation.plan import DIRECT, DIRECT_TTT, EAGLE1, EAGLE3, FUSED
from benchmarks.evidence import papers, reasons
from benchmarks.evidence.markdown import interval, speedup_and_tau, table
from benchmarks.evidence.order import Ranked, verdict
from benchmarks.evidence.results import Results, Row, by_method
from benchmarks.evidence.section import Section
from benchmarks.figure import Lines

COMMAND = "python -m benchmarks ablation --questions QUESTIONS --features FEATURES --part head,scaling,alpha"
NAMES = {
    EAGLE1: "EAGLE-1",
    DIRECT: "without feature loss",
    FUSED: "without feature loss, fused",
    DIRECT_TTT: "without feature loss, training-time test",
    EAGLE3: "fused, training-time test: EAGLE-3",
}
STEPS = 5  # of n-alpha
FALLS_TO = 3
LAST = f"{EAGLE1}-1of2-once"  # of the scaling curve's trainings

Rows = dict[str, Row]


def sections(results: Results) -> list[Section]:
    reports = results.reports("ablation/head-*")
    rows = by_method(reports)
    origin = reports[0].origin if reports else None
    return [
        _ablation(rows, origin),
        _feature_loss(rows, origin),
        _scaling(rows, origin),
        _alpha(rows, origin),
    ]


def _ablation(rows: Rows, origin: str | None) -> Section:
    theirs = table(
        ["theirs", "MT-bench", "GSM8K"],
        [[name, *(speedup_and_tau(*cell) for cell in cells)] for name, cells in papers.ABLATION.items()],
    )
    paper = (
        "EAGLE-3, Table 2 (LLaMA-Instruct 3.1 8B, temperature 0): speed-up / tau of EAGLE-2, the same "
        "without feature loss (and so with training-time test), and with fused features."
    )
    return _section("EAGLE-3 step by step", paper, (theirs,), rows, tuple(NAMES), origin, _ablation_body)


def _ablation_body(rows: Rows) -> tuple[str, ...]:
    lines = [[label, *_alphas(rows[name]), _tau(rows[name])] for name, label in NAMES.items()]
    ours = table(["ours", *(f"{step}-alpha" for step in range(STEPS)), "tau"], lines)
    ranked = [Ranked(NAMES[name], rows[name]["tau"]) for name in (EAGLE3, DIRECT_TTT, EAGLE1)]
    alone = [Ranked(NAMES[name], rows[name]["tau"]) for name in (EAGLE3, FUSED)]
    return (
        ours,
        f"As in Table 2, by tau: {verdict(ranked)}",
        f"Training-time test alone, by tau: {verdict(alone)}",
        *reasons.HEADS,
    )


def _feature_loss(rows: Rows, origin: str | None) -> Section:
    paper = (
        "EAGLE-3, Figure 4: without feature loss 0-alpha is higher than EAGLE-1's, but 1-alpha collapses, "
        "because the head never met an output of its own; with training-time test both are higher."
    )
    title = "Feature loss and training-time test"
    return _section(title, paper, (), rows, (EAGLE1, DIRECT, EAGLE3), origin, _feature_loss_body)


def _feature_loss_body(rows: Rows) -> tuple[str, ...]:
    orders = (("0-alpha", 0, (EAGLE3, DIRECT, EAGLE1)), ("1-alpha", 1, (EAGLE3, EAGLE1, DIRECT)))
    verdicts = [
        f"{what}: {verdict([Ranked(NAMES[name], rows[name]['acceptance'][step]) for name in order], 3)}"
        for what, step, order in orders
    ]
    return (*verdicts, *reasons.FEATURE_LOSS)


def _scaling(rows: Rows, origin: str | None) -> Section:
    paper = (
        "EAGLE-3, Figure 1 (LLaMA-Instruct 3.1 8B, MT-bench, 1 to 8 times ShareGPT): tau and speed-up of "
        "EAGLE-3 keep rising with the amount of training data, those of EAGLE-2 hardly do."
    )
    title = "More text to train on"
    section = _section(title, paper, (), rows, (EAGLE1, EAGLE3, LAST), origin, _scaling_body)
    if not section.is_measured:
        return section
    figures = {"evidence_scaling.svg": [_curves(rows, once) for once in (False, True)]}
    return Section(title, paper, COMMAND, section.body, origin, figures)


def _scaling_body(rows: Rows) -> tuple[str, ...]:
    lines = []
    for once in (False, True):
        for method in (EAGLE3, EAGLE1):
            curve = _curve(rows, method, once)
            how = "once each" if once else "same number of steps"
            cells = [f"{row['tau']:.2f} ({row['acceptance'][0]:.3f})" for row in curve]
            lines.append([f"{NAMES[method].split(': ')[-1]}, {how}", *cells, f"{_gain(curve):+.0%}"])
    tokens = [f"{row['tokens']:,} tokens" for row in _curve(rows, EAGLE3, False)]
    ranked = [Ranked(f"{method}'s gain", _gain(_curve(rows, method, False))) for method in (EAGLE3, EAGLE1)]
    return (
        table(["tau (0-alpha)", *tokens, "0-alpha gains"], lines),
        f"By what 0-alpha gains from all of the text, same number of steps: {verdict(ranked)}",
        *reasons.SCALING,
    )


def _curve(rows: Rows, method: str, once: bool) -> list[Row]:
    """From the least text to the most. The most text is in both, once."""
    parts = [row for name, row in rows.items() if name.startswith(f"{method}-1of")]
    chosen = [row for row in parts if row["method"].endswith("-once") == once]
    return [*sorted(chosen, key=lambda row: int(row["tokens"])), rows[method]]


def _gain(curve: Sequence[Row]) -> float:
    first, last = curve[0]["acceptance"][0], curve[-1]["acceptance"][0]
    return float(last / first - 1)


def _curves(rows: Rows, once: bool) -> Lines:
    curves = {method: _curve(rows, method, once) for method in (EAGLE3, EAGLE1)}
    series = {
        f"{method}, {step}-alpha": [(row["tokens"], row["acceptance"][step]) for row in curves[method]]
        for method in curves
        for step in (0, 1)
    }
    title = "each text met once" if once else "same number of steps"
    return Lines(title, "acceptance, held-out text", series, log_x=True, across="response tokens")


def _alpha(rows: Rows, origin: str | None) -> Section:
    paper = (
        "EAGLE-3, Figure 7 (LLaMA-Instruct 3.1 8B, MT-bench): as n grows to 7, EAGLE's acceptance drops "
        "significantly, from about .7 to about .5 as read off the figure; EAGLE-3's hardly changes."
    )
    title = "Acceptance by the head's own outputs in its input"
    section = _section(title, paper, (), rows, (EAGLE1, FUSED, EAGLE3), origin, _alpha_body)
    if not section.is_measured:
        return section
    series = {NAMES[name]: list(enumerate(rows[name]["acceptance"])) for name in (EAGLE3, FUSED, EAGLE1)}
    figures = {"evidence_alpha.svg": [Lines("n-alpha", "acceptance, held-out text", series, across="n")]}
    return Section(title, paper, COMMAND, section.body, origin, figures)


def _alpha_body(rows: Rows) -> tuple[str, ...]:
    shown = (EAGLE3, FUSED, EAGLE1)
    kept = {name: _kept(rows[name]) for name in shown}
    lines = [[NAMES[name], *_alphas(rows[name]), f"{1 - kept[name]:.0%}"] for name in shown]
    header = ["ours", *(f"{step}-alpha" for step in range(STEPS)), f"falls by {FALLS_TO}-alpha"]
    ranked = [Ranked(NAMES[name], kept[name]) for name in (EAGLE3, EAGLE1)]
    said = f"By what is left at {FALLS_TO}-alpha of 0-alpha: {verdict(ranked)}"
    return table(header, lines), said, *reasons.ALPHA


def _kept(row: Row) -> float:
    return float(row["acceptance"][FALLS_TO] / row["acceptance"][0])


def _section(
    title: str,
    paper: str,
    before: tuple[str, ...],
    rows: Rows,
    needed: tuple[str, ...],
    origin: str | None,
    body: Callable[[Rows], tuple[str, ...]],
) -> Section:
    """Not measured while one of the heads that it needs is missing."""
    if not rows.keys() >= set(needed):
        return Section(title, paper, COMMAND, before)
    return Section(title, paper, COMMAND, (*before, *body(rows)), origin)


def _alphas(row: Row) -> list[str]:
    return [f"{rate:.3f}" for rate in row["acceptance"][:STEPS]]


def _tau(row: Row) -> str:
    return f"{row['tau']:.2f} {interval(row['tau_interval'])}"
