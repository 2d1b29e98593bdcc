"""EAGLE-3 put together step by step: its Table 2 and Figure 4."""

from __future__ import annotations

from benchmarks.ablation.plan import DIRECT, DIRECT_TTT, EAGLE1, EAGLE3, FUSED
from benchmarks.evidence import papers
from benchmarks.evidence.markdown import interval, speedup_and_tau, table
from benchmarks.evidence.order import Ranked, verdict
from benchmarks.evidence.reasons import FEATURE_LOSS, HEADS
from benchmarks.evidence.results import Row
from benchmarks.evidence.section import Section
from benchmarks.evidence.trained import ALPHAS, NAMES, Trained
from benchmarks.stats import Pooled, pooled_difference

TABLE2 = (
    "EAGLE-3, Table 2 (LLaMA-Instruct 3.1 8B, temperature 0): speed-up / tau of EAGLE-2, the same without "
    "feature loss (and so with training-time test), and with fused features."
)
FIGURE4 = (
    "EAGLE-3, Figure 4: without feature loss 0-alpha is higher than EAGLE's, but 1-alpha is very low, "
    "because the head never met an output of its own; with training-time test both are higher."
)
TASKS = ("mt_bench", "gsm8k")  # of Table 2
# The paper's orders: names of heads, best first, and which draft step they are compared at.
ORDERS = (("0-alpha", 0, (EAGLE3, DIRECT, EAGLE1)), ("1-alpha", 1, (EAGLE3, EAGLE1, DIRECT)))


def sections(trained: Trained) -> list[Section]:
    theirs = table(
        ["theirs", *(papers.TASKS[task] for task in TASKS)],
        [[name, *(speedup_and_tau(*cell) for cell in cells)] for name, cells in papers.ABLATION.items()],
    )
    return [
        trained.section(
            "EAGLE-3 step by step", TABLE2, tuple(NAMES), lambda: _table2(trained), before=(theirs,)
        ),
        trained.section(
            "Feature loss and training-time test",
            FIGURE4,
            (EAGLE1, DIRECT, EAGLE3),
            lambda: (*_figure4(trained), *FEATURE_LOSS),
        ),
    ]


def _table2(trained: Trained) -> tuple[str, ...]:
    by_task = [f"tau, {papers.TASKS[task]}" for task in TASKS]
    header = ["ours", *ALPHAS, *by_task, "tau, all tasks", "above EAGLE-1, paired"]
    ours = table(header, [_line(trained, name) for name in NAMES])
    whole = _ranked(trained, (EAGLE3, DIRECT_TTT, EAGLE1))
    alone = _ranked(trained, (EAGLE3, FUSED))
    return (
        ours,
        f"As in Table 2, by tau: {verdict(whole)}",
        f"Training-time test alone, by tau: {verdict(alone)}",
        *HEADS,
    )


def _line(trained: Trained, name: str) -> list[str]:
    row = trained.rows[name]
    by_task = [f"{row['tau_by_task'][task]:.2f}" if task in row["tau_by_task"] else "" for task in TASKS]
    more = pooled_difference(_parts(row), _parts(trained.rows[EAGLE1]))
    tau = f"{row['tau']:.2f} {interval(row['tau_interval'])}"
    return [NAMES[name], *trained.alphas(name), *by_task, tau, f"{more.value:+.2f} {interval(more[1:])}"]


def _parts(row: Row) -> list[Pooled]:
    """Of the same questions for every head."""
    return [Pooled(*part) for part in row["per_question"]]


def _ranked(trained: Trained, order: tuple[str, ...]) -> list[Ranked]:
    return [Ranked(NAMES[name], trained.rows[name]["tau"]) for name in order]


def _figure4(trained: Trained) -> list[str]:
    said = []
    for what, step, order in ORDERS:
        ranked = [Ranked(NAMES[name], trained.rows[name]["acceptance"][step]) for name in order]
        said.append(f"{what}: {verdict(ranked, 3)}")
    return said
