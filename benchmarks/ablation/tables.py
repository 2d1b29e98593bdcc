"""The results as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.ablation.options import ALPHA, HEAD, SCALING
from benchmarks.ablation.plan import DIRECT, DIRECT_TTT, EAGLE1, EAGLE3, FUSED
from benchmarks.cells import with_interval
from benchmarks.table import number, render

WHAT = {
    EAGLE1: "the target's next feature (EAGLE-1)",
    DIRECT: "the target's tokens, without feature loss",
    FUSED: "the same, low, middle and high features fused",
    DIRECT_TTT: "without feature loss, training-time test",
    EAGLE3: "fused, training-time test (EAGLE-3)",
}
STEPS = 5  # of n-alpha that are shown

Rows = Mapping[str, dict[str, Any]]


def print_trees(rows: Sequence[dict[str, Any]]) -> None:
    header = ["tree", "m", "tau", "more than full"]
    lines = [
        [row["method"], str(row["m"]), _tau(row), with_interval(row["vs_full"], row["vs_full_interval"])]
        for row in rows
    ]
    print(render("Trees of the same head over the same text, with 95 % intervals", header, lines))


def print_calibration(rows: Sequence[dict[str, Any]]) -> None:
    """Of the head's greedy drafts, raw, by depth."""
    lines = [
        [
            "all" if row["depth"] is None else str(row["depth"]),
            str(row["observations"]),
            number(row["ece_raw"], 3),
            number(row["ece_calibrated"], 3),
        ]
        for row in rows
        if row["mode"] is not None
    ]
    header = ["depth", "draft tokens", "raw", "calibrated"]
    print(render("Expected error of a draft token's confidence", header, lines))


def print_heads(part: str, rows: Rows) -> None:
    """What `part` shows of the trained heads."""
    if part == HEAD:
        shown = {name: f"{name}: {what}" for name, what in WHAT.items()}
        _print("Heads by what they learned, of the same text", shown, rows)
    if part == ALPHA:
        shown = {name: name for name in (EAGLE1, FUSED, EAGLE3)}
        _print("Acceptance by hidden states of its own in the input", shown, rows)
    if part == SCALING:
        ordered = sorted(rows.values(), key=lambda row: (row["method"].split("-")[0], row["tokens"]))
        shown = {
            row["method"]: f"{row['method']}: {row['tokens']} tokens, {row['epochs']} times"
            for row in ordered
            if row["method"].split("-")[0] in (EAGLE1, EAGLE3)
        }
        _print("Acceptance by text", shown, rows)


def _print(title: str, shown: Mapping[str, str], rows: Rows) -> None:
    header = ["", *(f"{step}-alpha" for step in range(STEPS)), "tau"]
    lines = [
        [label, *(number(rate, 3) for rate in rows[name]["acceptance"][:STEPS]), _tau(rows[name])]
        for name, label in shown.items()
    ]
    print(render(title, header, lines))


def _tau(row: dict[str, Any]) -> str:
    return with_interval(row["tau"], row["tau_interval"])
