"""Finished trials on disk, one JSON line each, so that a run can go on where it was interrupted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.errors import BenchmarkError
from benchmarks.evaluate.trials import Place, Trial

REMEDY = "remove it or name another --out"


class TrialLog:
    """The first line says by which settings. A place is known when all `methods` have answered.

    Raises BenchmarkError where the file holds trials of other settings, or something else.
    """

    def __init__(self, path: Path, settings: dict[str, Any], methods: Sequence[str]) -> None:
        self._path, self._methods = path, methods
        self._trials: dict[tuple[Place, str], Trial] = {}
        lines = _whole_lines(path)
        if not lines:
            self._append([settings])
            return
        try:
            before, *rows = [json.loads(line) for line in lines]
            self._keep([Trial.from_json(fields) for fields in rows])
        except (json.JSONDecodeError, AttributeError, TypeError, KeyError) as error:
            raise BenchmarkError(f"{path} holds no trials ({error}); {REMEDY}") from None
        _check_same(path, before, settings)

    def __contains__(self, place: Place) -> bool:
        return all((place, method) in self._trials for method in self._methods)

    def of(self, places: Iterable[Place], method: str) -> list[Trial]:
        """In the order of `places`, all of which are known."""
        return [self._trials[place, method] for place in places]

    def add(self, trials: Sequence[Trial]) -> None:
        self._append([trial.as_json() for trial in trials])
        self._keep(trials)

    def _keep(self, trials: Sequence[Trial]) -> None:
        self._trials |= {(trial.place, trial.method): trial for trial in trials}

    def _append(self, rows: list[dict[str, Any]]) -> None:
        with self._path.open("a") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))


def _whole_lines(path: Path) -> list[str]:
    """An interrupted run may have left a part of a line, which is cut off."""
    if not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    return whole.splitlines()


def _check_same(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    for name in {**before, **now}:
        if before.get(name) != now.get(name):
            raise BenchmarkError(
                f"{path} holds trials of other settings ({name}: {before.get(name)}, now {now.get(name)}); "
                + REMEDY
            )
