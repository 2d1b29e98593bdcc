"""A part of the page: one table or figure of the papers beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.figure import Bars, Diagram, Lines

Panels = Sequence[Bars | Lines | Diagram]


@dataclass(frozen=True, slots=True)
class Section:
    """body: paragraphs and tables. origin: of our figures; None: not measured. measured_by: the command that
    would. figure: a file's name, and what is drawn there."""

    title: str
    paper: str
    measured_by: str
    body: tuple[str, ...] = ()
    origin: str | None = None
    figures: Mapping[str, Panels] = field(default_factory=dict)

    @property
    def is_measured(self) -> bool:
        return self.origin is not None

    def text(self, figures: str) -> str:
        """figures: the folder that the page links to."""
        parts = [f"## {self.title}", self.paper]
        if self.origin is None:
            return "\n\n".join([*parts, *self.body, f"Not measured: `{self.measured_by}`."])
        drawn = [f"![{self.title}]({figures}/{name})" for name in self.figures]
        return "\n\n".join([*parts, *self.body, *drawn, f"Ours: {self.origin}."])
