"""Figures of an evaluation. matplotlib is imported only here: the rest of the pipeline works without."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from training.calibration import CalibrationBin


def draw_acceptance(rates: Mapping[str, list[float]], path: Path) -> None:
    """n-alpha of each head over n."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.5, 3.5), layout="constrained")
    for name, values in rates.items():
        axes.plot(range(len(values)), values, marker="o", label=name)
    axes.set(xlabel="draft step n", ylabel="acceptance (n-alpha)", ylim=(0, 1))
    axes.set_xticks(range(max(map(len, rates.values()))))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def draw_calibration(curves: Mapping[str, list[CalibrationBin]], path: Path) -> None:
    """Share of right guesses over confidence; the diagonal is perfect."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(4.5, 4), layout="constrained")
    axes.plot([0, 1], [0, 1], color="grey", linestyle="--", linewidth=1)
    for name, curve in curves.items():
        axes.plot([b.confidence for b in curve], [b.accepted for b in curve], marker="o", label=name)
    axes.set(xlabel="confidence of the first guess", ylabel="accepted", xlim=(0, 1), ylim=(0, 1))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
