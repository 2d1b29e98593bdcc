"""Acceptance by the amount of text: EAGLE-3's Figure 1."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.ablation.plan import EAGLE1, EAGLE3
from benchmarks.evidence.markdown import table
from benchmarks.evidence.order import Ranked, verdict
from benchmarks.evidence.reasons import SCALING
from benchmarks.evidence.results import Row
from benchmarks.evidence.section import Panels, Section
from benchmarks.evidence.trained import SHORT, Trained
from benchmarks.figure import Lines

PAPER = (
    "EAGLE-3, Figure 1 (LLaMA-Instruct 3.1 8B, MT-bench, 1 to 8 times ShareGPT): tau and speed-up of EAGLE-3 "
    "keep rising with the amount of training data, those of EAGLE-2 hardly do."
)
METHODS = (EAGLE3, EAGLE1)
LEAST = tuple(f"{method}-1of8{once}" for method in METHODS for once in ("", "-once"))
HOW = {False: "same number of steps", True: "each text met once"}


def section(trained: Trained) -> Section:
    return trained.section(
        "More text to train on",
        PAPER,
        (*METHODS, *LEAST),
        lambda: _body(trained),
        lambda: {"evidence_scaling.svg": _panels(trained)},
    )


def _body(trained: Trained) -> tuple[str, ...]:
    amounts = sorted({row["tokens"] for once in HOW for row in _curve(trained, EAGLE3, once)})
    lines = []
    for once, how in HOW.items():
        for method in METHODS:
            curve = _curve(trained, method, once)
            cells = {row["tokens"]: f"{row['tau']:.2f} ({row['acceptance'][0]:.3f})" for row in curve}
            points = [cells.get(tokens, "") for tokens in amounts]
            lines.append([f"{SHORT[method]}, {how}", *points, f"{_gain(curve):+.0%}"])
    header = ["tau (0-alpha)", *(f"{tokens:,} tokens" for tokens in amounts), "0-alpha gains"]
    return (table(header, lines), *(_verdict(trained, once) for once in HOW), *SCALING)


def _verdict(trained: Trained, once: bool) -> str:
    ranked = [Ranked(SHORT[method], _gain(_curve(trained, method, once))) for method in METHODS]
    return f"By what 0-alpha gains, {HOW[once]}: {verdict(ranked)}"


def _panels(trained: Trained) -> Panels:
    return [_panel(trained, once) for once in HOW]


def _panel(trained: Trained, once: bool) -> Lines:
    curves = {method: _curve(trained, method, once) for method in METHODS}
    series = {
        f"{SHORT[method]}, {step}-alpha": [(row["tokens"], row["acceptance"][step]) for row in curve]
        for method, curve in curves.items()
        for step in (0, 1)
    }
    return Lines(HOW[once], "acceptance, held-out text", series, log_x=True, across="response tokens")


def _curve(trained: Trained, method: str, once: bool) -> list[Row]:
    """From the least text to the most, which is in both curves: it is met once either way."""
    parts = [row for name, row in trained.rows.items() if name.startswith(f"{method}-1of")]
    chosen = [row for row in parts if row["method"].endswith("-once") == once]
    return [*sorted(chosen, key=lambda row: int(row["tokens"])), trained.rows[method]]


def _gain(curve: Sequence[Row]) -> float:
    first, last = curve[0]["acceptance"][0], curve[-1]["acceptance"][0]
    return float(last / first - 1)
