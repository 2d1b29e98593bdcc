"""Confidence against acceptance: EAGLE-2's Figure 6."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt
from typing import Any

from benchmarks.evidence import papers
from benchmarks.evidence.markdown import table
from benchmarks.evidence.reasons import CONFIDENCE
from benchmarks.evidence.results import Report, Results, Row
from benchmarks.evidence.section import Panels, Section
from benchmarks.figure import Diagram

COMMAND = "python -m benchmarks ablation --questions QUESTIONS --part calibration"
PAPER = (
    "EAGLE-2, Figure 6 (Vicuna 7B, Alpaca): acceptance rises with confidence, along the diagonal; below .05 "
    f"about {papers.LEAST_CONFIDENT:.2f} is accepted, above .95 about {papers.MOST_CONFIDENT:.2f} "
    "(section 3.2)."
)
HEAD = "head or draft model"
LEAST = 25  # draft tokens of a point that is drawn
DEPTHS = 4  # that are drawn


def section(results: Results) -> Section:
    report = results.report("ablation/calibration")
    title = "Confidence and acceptance"
    if report is None:
        return Section(title, PAPER, COMMAND)
    figures = {"evidence_confidence.svg": _panels(report)}
    return Section(title, PAPER, COMMAND, (*_body(report), *CONFIDENCE), report.origin, figures)


def _body(report: Report) -> tuple[str, ...]:
    whole = _row(report, None)
    raw = [each for each in whole["bins_raw"] if each["weight"] >= LEAST]
    rows = [[f"{b['confidence']:.2f}", f"{b['accepted']:.2f}", f"{b['weight']:.0f}"] for b in raw]
    return (
        table(["confidence", "accepted", "draft tokens"], rows),
        _verdict(raw),
        table(
            ["depth", "draft tokens", "error of raw confidence", "calibrated online"],
            [
                _errors("all" if depth is None else str(depth), row)
                for depth, row in _by_depth(report).items()
            ],
        ),
    )


def _verdict(bins: list[dict[str, Any]]) -> str:
    """A fall counts where it is more than two standard errors of the difference."""
    falls = [
        f"from {low['accepted']:.2f} to {high['accepted']:.2f} at {high['confidence']:.2f}"
        for low, high in pairwise(bins)
        if low["accepted"] - high["accepted"] > 2 * sqrt(_variance(low) + _variance(high))
    ]
    if falls:
        return f"**Not the same order**: acceptance falls {', '.join(falls)}."
    return (
        "**Same order**: acceptance rises with confidence; between neighbours it nowhere falls by more than "
        "two standard errors."
    )


def _variance(each: dict[str, Any]) -> float:
    """Of the share accepted."""
    share = float(each["accepted"])
    return share * (1 - share) / float(each["weight"])


def _errors(depth: str, row: Row) -> list[str]:
    return [depth, str(row["observations"]), f"{row['ece_raw']:.3f}", f"{row['ece_calibrated']:.3f}"]


def _panels(report: Report) -> Panels:
    whole, by_depth = _row(report, None), _by_depth(report)
    depths = {f"depth {d}": _points(row["bins_raw"]) for d, row in by_depth.items() if d and d <= DEPTHS}
    stages = {"raw": _points(whole["bins_raw"]), "calibrated": _points(whole["bins_calibrated"])}
    return [
        Diagram("raw, by depth", "confidence", "share accepted", {n: p for n, p in depths.items() if p}),
        Diagram("all depths", "confidence", "share accepted", stages),
    ]


def _points(bins: list[dict[str, Any]]) -> list[tuple[float, float]]:
    return [(each["confidence"], each["accepted"]) for each in bins if each["weight"] >= LEAST]


def _by_depth(report: Report) -> dict[int | None, Row]:
    return {row["depth"]: row for row in report.rows if row["method"] == HEAD and row["mode"] == "greedy"}


def _row(report: Report, depth: int | None) -> Row:
    return _by_depth(report)[depth]
