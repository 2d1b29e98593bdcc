"""The heads that were trained for comparison, as far as they are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.ablation.plan import DIRECT, DIRECT_TTT, EAGLE1, EAGLE3, FUSED
from benchmarks.evidence.results import Results, Row, by_method
from benchmarks.evidence.section import Panels, Section

COMMAND = "python -m benchmarks ablation --questions QUESTIONS --features FEATURES --part head,scaling,alpha"
NAMES = {
    EAGLE1: "EAGLE-1",
    DIRECT: "without feature loss",
    FUSED: "without feature loss, fused",
    DIRECT_TTT: "without feature loss, training-time test",
    EAGLE3: "EAGLE-3: fused, training-time test",
}
SHORT = {EAGLE1: "EAGLE-1", EAGLE3: "EAGLE-3"}
STEPS = 5  # of n-alpha that are shown
ALPHAS = tuple(f"{step}-alpha" for step in range(STEPS))


@dataclass(frozen=True, slots=True)
class Trained:
    """rows: by name of the training. origin: where they come from."""

    rows: Mapping[str, Row]
    origin: str | None

    @classmethod
    def of(cls, results: Results) -> Trained:
        reports = results.reports("ablation/head-*")
        return cls(by_method(reports), reports[0].origin if reports else None)

    def section(
        self,
        title: str,
        paper: str,
        needed: tuple[str, ...],
        body: Callable[[], tuple[str, ...]],
        figures: Callable[[], dict[str, Panels]] = dict,
        before: tuple[str, ...] = (),
    ) -> Section:
        """Not measured while one of the heads that it needs is missing. before: the paper's own tables."""
        if not self.rows.keys() >= set(needed):
            return Section(title, paper, COMMAND, before)
        return Section(title, paper, COMMAND, (*before, *body()), self.origin, figures())

    def alphas(self, name: str) -> list[str]:
        return [f"{rate:.3f}" for rate in self.rows[name]["acceptance"][:STEPS]]
