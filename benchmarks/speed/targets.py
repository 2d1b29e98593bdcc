"""What the results are measured against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks.identity import FAULT_MARGIN
from benchmarks.report import ALL_TASKS, Row
from benchmarks.speed import batch, breakdown, footprint, tasks, tau
from benchmarks.speed.methods import EAGLE3, PLAIN, POOL_HTTP, PROMPT_LOOKUP, TRANSFORMERS, WITH_HEAD

PLAIN_OVER_TRANSFORMERS = 1.5
LOOKUP_ON_CNN_DM = 1.3
LOOKUP_ON_ANY_TASK = 0.95
SCALING, SCALING_REQUESTS = 6.0, 16
EAGLE3_ON_AVERAGE, EAGLE3_ON_ANY_TASK = 1.5, 1.1
DRAFT_SHARE = {1: 0.35, 8: 0.25}  # of the verify forward, by requests
TAU, TAU_SIZE = 2.5, 32
OVERHEAD_SHARE = 0.15
PSS_BYTES = 3e9


class Verdict(NamedTuple):
    """One target. decode: the same figure without prefill, for comparison."""

    name: str
    target: str
    measured: str
    decode: str | None
    met: bool


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Of every target that these rows can speak to."""
    return [
        *_transformers(rows),
        *_lookup(rows),
        *_eagle3(rows),
        *_drafting(rows),
        *_tau(rows),
        *_scaling(rows),
        *_overhead(rows),
        *_memory(rows),
        *_identity(rows),
    ]


def _select(rows: Sequence[Row], section: str, **wanted: Any) -> list[Row]:
    return [r for r in rows if r.section == section and all(getattr(r, k) == v for k, v in wanted.items())]


def _at_least(name: str, target: float, value: float, decode: float | None) -> Verdict:
    return Verdict(
        name,
        f">= {target:g}x",
        f"{value:.2f}x",
        None if decode is None else f"{decode:.2f}x",
        value >= target,
    )


def _transformers(rows: Sequence[Row]) -> Iterator[Verdict]:
    """transformers' row holds its own ratio to plain: here it is the other way round."""
    for row in _select(rows, tasks.SECTION, task=ALL_TASKS, method=TRANSFORMERS):
        decode = row.special["decode_speedup_vs_plain"]
        if row.speedup_vs_plain:
            yield _at_least(
                "plain / transformers, all tasks",
                PLAIN_OVER_TRANSFORMERS,
                1 / row.speedup_vs_plain,
                decode and 1 / decode,
            )


def _lookup(rows: Sequence[Row]) -> Iterator[Verdict]:
    for method in (PROMPT_LOOKUP, POOL_HTTP):
        by_task = [r for r in _select(rows, tasks.SECTION, method=method) if r.task != ALL_TASKS]
        for row in by_task:
            cnn_dm = row.task == "cnn_dm"
            if row.speedup_vs_plain is not None:
                yield _at_least(
                    f"{method} / plain, {row.task}",
                    LOOKUP_ON_CNN_DM if cnn_dm else LOOKUP_ON_ANY_TASK,
                    row.speedup_vs_plain,
                    row.special["decode_speedup_vs_plain"],
                )


def _eagle3(rows: Sequence[Row]) -> Iterator[Verdict]:
    for method in WITH_HEAD["http"]:
        for row in _select(rows, tasks.SECTION, method=method):
            if row.speedup_vs_plain is not None:
                target = EAGLE3_ON_AVERAGE if row.task == ALL_TASKS else EAGLE3_ON_ANY_TASK
                decode = row.special["decode_speedup_vs_plain"]
                yield _at_least(f"{method} / plain, {row.task}", target, row.speedup_vs_plain, decode)


def _drafting(rows: Sequence[Row]) -> Iterator[Verdict]:
    for row in _select(rows, breakdown.SECTION, method=EAGLE3):
        share, target = row.special["draft_share"], DRAFT_SHARE[row.concurrency]
        name = f"drafting / verify forward, {row.concurrency} at once"
        yield Verdict(name, f"<= {target:.0%}", f"{share:.1%}", None, share <= target)


def _tau(rows: Sequence[Row]) -> Iterator[Verdict]:
    for row in _select(rows, tau.SECTION, task=ALL_TASKS, method=EAGLE3):
        if row.special["num_speculative_tokens"] == TAU_SIZE and row.tau is not None:
            name = f"tau at m = {TAU_SIZE}, {row.method}"
            yield Verdict(name, f">= {TAU:g}", f"{row.tau:.2f}", None, row.tau >= TAU)


def _scaling(rows: Sequence[Row]) -> Iterator[Verdict]:
    for row in _select(rows, batch.SECTION, concurrency=SCALING_REQUESTS):
        if row.special["scaling"] is not None:
            name = f"{SCALING_REQUESTS} requests / one, {row.method}"
            yield _at_least(name, SCALING, row.special["scaling"], row.special["decode_scaling"])


def _overhead(rows: Sequence[Row]) -> Iterator[Verdict]:
    for row in _select(rows, breakdown.SECTION):
        share = row.special["overhead_share"]
        name = f"step outside forward and drafter, {row.method}"
        yield Verdict(name, f"<= {OVERHEAD_SHARE:.0%}", f"{share:.1%}", None, share <= OVERHEAD_SHARE)


def _memory(rows: Sequence[Row]) -> Iterator[Verdict]:
    for row in _select(rows, footprint.SECTION):
        if row.special["role"] == footprint.TOTAL:
            pss = row.special["pss_bytes"]
            held = row.special["kv_tokens"]
            name = f"whole service, {f'{held:,} tokens in its cache' if held else 'cache partly used'}"
            target, measured = f"<= {PSS_BYTES / 1e9:g} GB", f"{pss / 1e9:.2f} GB PSS"
            yield Verdict(name, target, measured, None, held is not None and pss <= PSS_BYTES)


def _identity(rows: Sequence[Row]) -> Iterator[Verdict]:
    """transformers has kernels of its own and is not bound to say the same."""
    compared = [
        r
        for r in rows
        if r.identical is not None and r.method not in (PLAIN, TRANSFORMERS) and r.task != ALL_TASKS
    ]
    differences = [difference for row in compared for difference in row.special["differences"]]
    faults = [d for d in differences if d["margin"] is None or d["margin"] > FAULT_MARGIN]
    total = sum(row.special["compared"] for row in compared)
    if total:
        yield Verdict(
            "answers other than plain's",
            f"margins <= {FAULT_MARGIN:g}",
            f"{len(differences)} of {total}, {len(faults)} above",
            None,
            not faults,
        )
