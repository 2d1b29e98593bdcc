"""Throughput by requests at once: EAGLE-3's Tables 3 and 5, and other systems on our machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.evidence import papers
from benchmarks.evidence.markdown import interval, table, times
from benchmarks.evidence.reasons import PEERS, THROUGHPUT
from benchmarks.evidence.results import Report, Results
from benchmarks.evidence.section import Section
from benchmarks.figure import Lines
from benchmarks.peers.methods import CANOPY
from benchmarks.speed.methods import PLAIN
from benchmarks.table import ABSENT, number

LOAD = "python -m benchmarks load --questions QUESTIONS --json load.json"
PEERS_COMMAND = "python -m benchmarks peers --questions QUESTIONS --vllm PYTHON --json peers.json"


def sections(results: Results) -> list[Section]:
    return [_load(results.report("load")), _peers(results.report("peers"))]


def _load(report: Report | None) -> Section:
    title = "Throughput by batch size"
    paper = (
        "EAGLE-3, Table 3 (SGLang on H100, LLaMA-Instruct 3.1 8B, MT-bench, chains of 3) and Table 5 (vLLM, "
        "chains of 2): throughput over plain decoding by batch size. EAGLE-3 keeps more of its lead than "
        "EAGLE as batches grow."
    )
    theirs = (
        _theirs("SGLang", papers.SGLANG_SIZES, papers.SGLANG),
        _theirs("vLLM", papers.VLLM_SIZES, papers.VLLM),
    )
    if report is None:
        return Section(title, paper, LOAD, theirs)
    sizes, ours = _ratios(report)
    lines = [[name, *(times(by_size.get(size)) for size in sizes)] for name, by_size in ours.items()]
    body = (*theirs, table(["ours, of plain", *map(str, sizes)], lines), *THROUGHPUT)
    series = {f"ours, {name}": sorted(by_size.items()) for name, by_size in ours.items()}
    series["EAGLE-3 in SGLang"] = list(zip(papers.SGLANG_SIZES, papers.SGLANG["EAGLE-3"], strict=True))
    panel = Lines("over plain decoding", "throughput", series, log_x=True, across="requests at once")
    return Section(title, paper, LOAD, body, report.origin, {"evidence_throughput.svg": [panel]})


def _theirs(system: str, sizes: Sequence[int], rows: Mapping[str, Sequence[float]]) -> str:
    return table([system, *map(str, sizes)], [[name, *map(times, ratios)] for name, ratios in rows.items()])


def _ratios(report: Report) -> tuple[list[int], dict[str, dict[int, float]]]:
    """Sizes, and of each way to choose m the ratio to plain decoding by size."""
    ratios: dict[str, dict[int, float]] = {}
    for row in report.rows:
        if row["section"] == "load" and row["rate"] is None and row["method"] != PLAIN:
            ratios.setdefault(row["method"], {})[row["concurrency"]] = row["ratio_to_plain"]["value"]
    return sorted({size for by_size in ratios.values() for size in by_size}), ratios


def _peers(report: Report | None) -> Section:
    title = "Beside other systems"
    paper = (
        "EAGLE-3, Tables 3 to 5, measure inside SGLang and vLLM on GPUs. Here the same prompts go through "
        "other systems on the same CPU: tokens/s of whole batches, and how many times as fast ours is."
    )
    if report is None:
        return Section(title, paper, PEERS_COMMAND)
    sizes = list(dict.fromkeys(row["concurrency"] for row in report.rows))
    methods = dict.fromkeys(row["method"] for row in report.rows)
    lines = [[method, *(_peer(report, method, size) for size in sizes)] for method in methods]
    ours = table(["tokens/s (ours is so many times as fast)", *map(str, sizes)], lines)
    body = (ours, _ahead(report), *PEERS)
    return Section(title, paper, PEERS_COMMAND, body, report.origin)


def _ahead(report: Report) -> str:
    behind = [
        f"{row['method']} at {row['concurrency']}"
        for row in report.rows
        if not row["method"].startswith(CANOPY) and row.get("canopy_vs_this", 1) < 1
    ]
    if behind:
        return f"**Behind**: {', '.join(behind)}."
    return "**Ahead of every other system at every size.**"


def _peer(report: Report, method: str, size: int) -> str:
    row = report.find(method=method, concurrency=size)
    if row is None or row["tokens_per_s"] is None:
        return ABSENT
    rate = number(row["tokens_per_s"], 1)
    if method == CANOPY:
        return rate
    return f"{rate} ({times(row['canopy_vs_this'])} {interval(row['canopy_vs_this_interval'])})"
