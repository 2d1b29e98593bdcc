"""Acceptance by the amount of text: EAGLE-3's Figure 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
LEAST = tuple(f"{method}-1of8" for method in METHODS)
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
    curves = {once: {method: _curve(trained, method, once) for method in METHODS} for once in HOW}
    rows = [row for by_method in curves.values() for curve in by_method.values() for row in curve]
    amounts = sorted({row["tokens"] for row in rows})
    lines = [
        _line(f"{SHORT[method]}, {how}", curves[once][method], amounts)
        for once, how in HOW.items()
        for method in METHODS
    ]
    header = ["tau (0-alpha, 1-alpha)", *(f"{tokens:,} tokens" for tokens in amounts), "tau gains"]
    measured = [once for once, by_method in curves.items() if all(len(c) > 1 for c in by_method.values())]
    return (table(header, lines), *(_verdict(curves[once], once) for once in measured), *SCALING)


def _line(label: str, curve: Sequence[Row], amounts: Sequence[int]) -> list[str]:
    """Blank where a share has not been measured."""
    cells = {row["tokens"]: f"{row['tau']:.2f} ({_alphas(row)})" for row in curve}
    gain = f"{_gain(curve):+.1%}" if len(curve) > 1 else ""
    return [label, *(cells.get(tokens, "") for tokens in amounts), gain]


def _alphas(row: Row) -> str:
    return ", ".join(f"{rate:.3f}" for rate in row["acceptance"][:2])


def _verdict(curves: Mapping[str, Sequence[Row]], once: bool) -> str:
    ranked = [Ranked(SHORT[method], 100 * _gain(curve)) for method, curve in curves.items()]
    return f"By what tau gains in per cent, {HOW[once]}: {verdict(ranked, 1)}"


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
    return float(curve[-1]["tau"] / curve[0]["tau"] - 1)
