"""Results of other commands, as far as they are there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.errors import BenchmarkError

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """What a command wrote (see benchmarks/report.py)."""

    command: str
    commit: str | None
    machine: dict[str, Any]
    settings: dict[str, Any]
    rows: list[Row]

    @property
    def origin(self) -> str:
        """One line about where the figures come from."""
        machine = f"{self.machine['cores']} cores of {self.machine['processor']}"
        return f"`{self.command}`; commit {self.commit}, {machine}"

    def find(self, **fields: Any) -> Row | None:
        """The first row with these values."""
        return next(
            (row for row in self.rows if all(row.get(name) == value for name, value in fields.items())), None
        )


@dataclass(frozen=True, slots=True)
class Results:
    """Files of one folder. Raises BenchmarkError where one of them is no report."""

    folder: Path

    def report(self, name: str) -> Report | None:
        """Of `name`.json; None where that has not been measured."""
        path = self.folder / f"{name}.json"
        return _read(path) if path.exists() else None

    def reports(self, pattern: str) -> list[Report]:
        return [_read(path) for path in sorted(self.folder.glob(f"{pattern}.json"))]


def by_method(reports: Iterable[Report]) -> dict[str, Row]:
    """Of reports about one method each."""
    return {row["method"]: row for report in reports for row in report.rows}


def _read(path: Path) -> Report:
    try:
        fields = json.loads(path.read_text())
        return Report(**{name: fields[name] for name in Report.__slots__})
    except (ValueError, KeyError, TypeError) as error:
        raise BenchmarkError(f"{path} is no benchmark's report ({error!r})") from None
