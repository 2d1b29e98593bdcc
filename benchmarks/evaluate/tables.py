"""The results as text."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cells import differences, identical, with_interval
from benchmarks.evaluate.methods import LEGEND
from benchmarks.report import Row
from benchmarks.table import ABSENT, number, render

DEPTHS = 4  # the JSON has all

HEADLINE = """\
tok/s: an answer's tokens over its whole time, prefill included; decode counts from the first token on. vs
plain: median of the ratios question by question, with its 95 % interval. tau: committed tokens per
verification, prefill excluded. depth d: of the times that tokens were drafted at this depth below what was
right, how often one of them was right. How many are verified is as the settings say: by default, as many as
are worth it, for each method in every step."""


def print_tables(rows: Sequence[Row]) -> None:
    methods = dict.fromkeys(row.method for row in rows)
    legend = "\n".join(f"  {name}: {LEGEND[name]}" for name in methods)
    print(f"\n{HEADLINE}\n{legend}\n")
    for temperature in dict.fromkeys(row.special["temperature"] for row in rows):
        here = [row for row in rows if row.special["temperature"] == temperature]
        print(_by_task(temperature, here))
        for text in differences(here):
            print(text)


def _by_task(temperature: float, rows: Sequence[Row]) -> str:
    header = ["", "tok/s", "vs plain", "decode vs plain", "tau", "drafted", "accepted"]
    header += ["depth 1", *map(str, range(2, DEPTHS + 1)), "identical"]
    return render(f"Temperature {temperature:g}", header, [_cells(row) for row in rows])


def _cells(row: Row) -> list[str]:
    of = row.special
    shares = [number(share) for share in of["acceptance_by_depth"][:DEPTHS]]
    return [
        f"{row.task}  {row.method}",
        number(row.tokens_per_s, 1),
        with_interval(row.speedup_vs_plain, of["speedup_interval"]),
        with_interval(of["decode_speedup_vs_plain"], of["decode_speedup_interval"]),
        number(row.tau),
        str(of["draft_tokens"]),
        str(of["accepted_tokens"]),
        *shares,
        *[ABSENT] * (DEPTHS - len(shares)),
        identical(row),
    ]
