"""The results as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.cells import with_interval
from benchmarks.peers.methods import CANOPY, LEGEND
from benchmarks.report import Row
from benchmarks.table import number, render

HEADLINE = """\
tokens/s of whole batches, prefill included: medians over batches, every system in turns. Answers end where
the model ends them; a padded batch lasts as long as its longest answer."""


def print_tables(rows: Sequence[Row], notes: Mapping[str, str], conditions: str) -> None:
    methods = dict.fromkeys(row.method for row in rows)
    legend = "\n".join(f"  {name}: {LEGEND[name]}" for name in methods)
    print(f"\n{HEADLINE}\n{legend}\n")
    print(
        _by_size(f"tokens/s by prompts at once ({conditions})", rows, lambda row: number(row.tokens_per_s, 1))
    )
    print(_by_size(f"{CANOPY} is so many times as fast", rows, _ahead))
    reasons = {row.method: row.special["why_not"] for row in rows if "why_not" in row.special}
    for name, note in {**reasons, **notes}.items():
        print(f"{name}: {note}")


def _ahead(row: Row) -> str:
    return with_interval(row.special.get("canopy_vs_this"), row.special.get("canopy_vs_this_interval"))


def _by_size(title: str, rows: Sequence[Row], cell: Callable[[Row], str]) -> str:
    sizes = list(dict.fromkeys(row.concurrency for row in rows))
    cells = {(row.method, row.concurrency): cell(row) for row in rows}
    methods = dict.fromkeys(row.method for row in rows)
    lines = [[method, *(cells[method, size] for size in sizes)] for method in methods]
    return render(title, ["", *map(str, sizes)], lines)
