"""Acceptance by how many of its own outputs a head is fed: EAGLE-3's Figure 7."""

from __future__ import annotations

from benchmarks.ablation.plan import EAGLE1, EAGLE3, FUSED
from benchmarks.evidence.markdown import table
from benchmarks.evidence.order import Ranked, verdict
from benchmarks.evidence.reasons import ALPHA
from benchmarks.evidence.section import Panels, Section
from benchmarks.evidence.trained import ALPHAS, NAMES, Trained
from benchmarks.figure import Lines

PAPER = (
    "EAGLE-3, Figure 7 (LLaMA-Instruct 3.1 8B, MT-bench): as n grows to 7, EAGLE's acceptance drops "
    "significantly, from about .7 to about .5 as read off the figure; EAGLE-3's hardly changes."
)
SHOWN = (EAGLE3, FUSED, EAGLE1)
FALLS_TO = 3


def section(trained: Trained) -> Section:
    title = "Acceptance by the head's own outputs in its input"
    return trained.section(title, PAPER, SHOWN, lambda: _body(trained), lambda: _figures(trained))


def _body(trained: Trained) -> tuple[str, ...]:
    lines = [[NAMES[name], *trained.alphas(name), f"{1 - _kept(trained, name):.0%}"] for name in SHOWN]
    ranked = [Ranked(NAMES[name], _kept(trained, name)) for name in (EAGLE3, EAGLE1)]
    return (
        table(["ours", *ALPHAS, f"falls by {FALLS_TO}-alpha"], lines),
        f"By what is left of 0-alpha at {FALLS_TO}-alpha: {verdict(ranked)}",
        *ALPHA,
    )


def _kept(trained: Trained, name: str) -> float:
    rates = trained.rows[name]["acceptance"]
    return float(rates[FALLS_TO] / rates[0])


def _figures(trained: Trained) -> dict[str, Panels]:
    series = {NAMES[name]: list(enumerate(trained.rows[name]["acceptance"])) for name in SHOWN}
    return {"evidence_alpha.svg": [Lines("n-alpha", "acceptance, held-out text", series, across="n")]}
