"""Charts of results, as panels side by side in one image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

PANEL_INCHES = (7.0, 4.2)


@dataclass(frozen=True, slots=True)
class Bars:
    """A group of bars per label; series[name][i] belongs to labels[i], None is left out."""

    title: str
    unit: str
    labels: Sequence[str]
    series: Mapping[str, Sequence[float | None]]

    def draw(self, axes: Any) -> None:
        width = 0.8 / len(self.series)
        for place, (name, values) in enumerate(self.series.items()):
            shift = (place - (len(self.series) - 1) / 2) * width
            known = [(i + shift, value) for i, value in enumerate(values) if value is not None]
            axes.bar([x for x, _ in known], [y for _, y in known], width, label=name)
        axes.set_xticks(range(len(self.labels)), self.labels, rotation=20, ha="right")


@dataclass(frozen=True, slots=True)
class Lines:
    """series[name] are points (x, y)."""

    title: str
    unit: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    log_x: bool = False
    across: str = ""

    def draw(self, axes: Any) -> None:
        axes.set_xlabel(self.across)
        for name, points in self.series.items():
            axes.plot(*zip(*points, strict=True), marker="o", label=name)
        if self.log_x:
            axes.set_xscale("log", base=2)
        ticks = sorted({x for points in self.series.values() for x, _ in points})
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axes.set_ylim(bottom=0)


@dataclass(frozen=True, slots=True)
class OverTime:
    """What was measured over time: series[name] are points (minutes, value). The first `ignored` minutes are
    shaded."""

    title: str
    unit: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    ignored: float

    def draw(self, axes: Any) -> None:
        axes.axvspan(0, self.ignored, color="gray", alpha=0.2)
        for name, points in self.series.items():
            axes.plot(*zip(*points, strict=True), label=name, linewidth=1)
        axes.set_xlabel("minutes")


@dataclass(frozen=True, slots=True)
class Diagram:
    """series[name] are points (x, y), both from 0 to 1; where they are equal there is a line."""

    title: str
    across: str
    unit: str
    series: Mapping[str, Sequence[tuple[float, float]]]

    def draw(self, axes: Any) -> None:
        axes.plot((0, 1), (0, 1), color="gray", linestyle="--", linewidth=1)
        for name, points in self.series.items():
            axes.plot(*zip(*points, strict=True), marker="o", label=name)
        axes.set_xlabel(self.across)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)


@dataclass(frozen=True, slots=True)
class Trace:
    """series[name][i] is the value at i; something changes at each of `changes`."""

    title: str
    across: str
    unit: str
    series: Mapping[str, Sequence[float]]
    changes: Sequence[int]

    def draw(self, axes: Any) -> None:
        for place in self.changes:
            axes.axvline(place, color="gray", linestyle="--", linewidth=1)
        for name, values in self.series.items():
            axes.plot(values, label=name)
        axes.set_xlabel(self.across)
        axes.set_ylim(bottom=0)


def draw(panels: Sequence[Bars | Lines | Diagram | Trace | OverTime], path: Path) -> None:
    """The file's ending chooses the format (png, svg, pdf). The same panels give the same file."""
    mpl.rcParams.update({"svg.hashsalt": "canopy", "svg.fonttype": "none"})
    width, height = PANEL_INCHES
    figure, grid = plt.subplots(
        1, len(panels), figsize=(width * len(panels), height), squeeze=False, layout="constrained"
    )
    for panel, axes in zip(panels, grid[0], strict=True):
        panel.draw(axes)
        axes.set_title(panel.title)
        axes.set_ylabel(panel.unit)
        axes.grid(axis="y", alpha=0.3)
        axes.legend(fontsize="small")
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
