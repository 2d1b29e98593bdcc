"""Finished results on disk, one small JSON file each: what is there is not measured again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.errors import BenchmarkError
from benchmarks.report import Row, write_report

REMEDY = "remove it or name another --out"


class Results:
    """Files of `folder`, which is made when it is needed."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        self._folder, self._arguments = folder, arguments

    def find(self, name: str, settings: dict[str, Any]) -> list[dict[str, Any]] | None:
        """Rows that were measured by the same settings; None where there are none.

        Raises BenchmarkError where the file holds something else.
        """
        path = self._path(name)
        if not path.exists():
            return None
        try:
            report = json.loads(path.read_text())
            before: dict[str, Any] = report["settings"]
            rows: list[dict[str, Any]] = report["rows"]
        except (ValueError, KeyError, TypeError) as error:
            raise BenchmarkError(f"{path} holds no results ({error!r}); {REMEDY}") from None
        now = json.loads(json.dumps(settings))
        for key in {**before, **now}:
            if before.get(key) != now.get(key):
                raise BenchmarkError(
                    f"{path} was measured by other settings ({key}: {before.get(key)}, now {now.get(key)}); "
                    + REMEDY
                )
        return rows

    def keep(self, name: str, settings: dict[str, Any], rows: list[Row]) -> list[dict[str, Any]]:
        """Write them, and return them as they are read."""
        self._folder.mkdir(exist_ok=True)
        write_report(self._path(name), self._arguments, settings, rows)
        found = self.find(name, settings)
        assert found is not None
        return found

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"
