"""What a run says of itself: a progress bar, and a CSV that survives interruption."""

from __future__ import annotations

import csv
import time
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm


@dataclass(frozen=True, slots=True)
class StepReport:
    """One optimizer step. loss: weighted over steps; acceptance[i]: teacher-forced agreement at step i.

    tokens: response tokens that the step learned from. seconds: its wall time.
    """

    step: int
    loss: float
    acceptance: tuple[float, ...]
    tokens: int
    seconds: float
    lr_factor: float
    grad_norm: float


class Smoothed:
    """Exponential means of what a single step only estimates."""

    def __init__(self, keep: float = 0.98) -> None:
        self._keep = keep
        self._values: list[float] = []

    def update(self, values: list[float]) -> list[float]:
        pairs = zip(self._values or values, values, strict=True)
        self._values = [self._keep * old + (1 - self._keep) * new for old, new in pairs]
        return self._values


class Progress:
    """Reports go to the bar at once and to `path` line by line."""

    def __init__(self, path: Path, steps: int, first_step: int, draft_steps: int) -> None:
        self._fields = ["step", "loss", *(f"acceptance_{i}" for i in range(draft_steps))]
        self._fields += ["tokens", "tokens_per_s", "lr_factor", "grad_norm"]
        rows = _rows_before(path, first_step, self._fields)
        self._file = path.open("w", newline="")
        self._writer = csv.writer(self._file)
        self._writer.writerows([self._fields, *rows])
        self._bar = tqdm(total=steps, initial=first_step, unit="step", desc="train", mininterval=5)
        self._smoothed = Smoothed()
        self._started, self._tokens = time.perf_counter(), 0

    def report(self, report: StepReport) -> None:
        values = [report.loss, *report.acceptance]
        rate = report.tokens / report.seconds
        row = [report.step, *(f"{value:.4f}" for value in values), report.tokens]
        self._writer.writerow([*row, f"{rate:.0f}", f"{report.lr_factor:.4f}", f"{report.grad_norm:.3f}"])
        self._file.flush()
        loss, *acceptance = self._smoothed.update(values)
        self._tokens += report.tokens
        mean_rate = self._tokens / (time.perf_counter() - self._started)
        shown = " ".join(f"{value:.3f}"[1:] if value < 1 else "1.0" for value in acceptance)
        self._bar.set_postfix_str(f"loss {loss:.3f}, acceptance {shown}, {mean_rate:.0f} tokens/s", False)
        self._bar.update()

    def close(self) -> None:
        self._bar.close()
        self._file.close()


def _rows_before(path: Path, step: int, fields: list[str]) -> list[list[str]]:
    """Rows of an earlier run that the checkpoint at `step` knows of."""
    if step == 0 or not path.exists():
        return []
    with path.open(newline="") as file:
        return [row for row in csv.reader(file) if len(row) == len(fields) and _is_before(row[0], step)]


def _is_before(text: str, step: int) -> bool:
    return text.isdigit() and int(text) < step
