"""What choosing tokens costs: sampling and the walk along the trees, as a share of a step."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from benchmarks.answers import Prompt, Window
from benchmarks.errors import BenchmarkError
from benchmarks.in_process import InProcess
from benchmarks.parsing import given
from benchmarks.report import Row, write_report
from benchmarks.table import number, percent, render
from serving.config import ServeConfig

SECTION = "sampler"
TASK = "words"
# Kind of sampling, and the largest share of a step that it may take at eight requests.
KINDS: Mapping[str, tuple[dict[str, Any], float]] = {
    "greedy": ({"temperature": 0.0}, 0.03),
    "temperature": ({"temperature": 0.8}, 0.08),
    "top_p": ({"temperature": 0.8, "top_p": 0.95}, 0.08),
    "top_k, min_p": ({"temperature": 0.8, "top_k": 50, "min_p": 0.05}, 0.08),
}


def run(options: argparse.Namespace, arguments: list[str]) -> None:
    """Raises BenchmarkError when the answers are too short to be decoded together."""
    settings = {"model": options.model, "dtype": options.dtype, "speculation.placement": "colocated"}
    system = InProcess(ServeConfig.load(settings), options.max_tokens)
    vocabulary = system.engine.card().vocab_size
    prompts = [_prompt(index, vocabulary) for index in range(options.requests)]
    windows: dict[str, list[Window]] = {kind: [] for kind in KINDS}
    for _ in range(options.repeats):
        for kind, (sampling, _) in KINDS.items():
            window = system.run(prompts, None, sampling).window
            if window is not None and window.steps:
                windows[kind].append(window)
    rows = [_row(kind, options.requests, each) for kind, each in windows.items()]
    lines = [
        [
            row.method,
            number(row.special["step_ms"]),
            number(row.special["sample_ms"], 3),
            percent(row.special["share"]),
            percent(KINDS[row.method][1]),
        ]
        for row in rows
    ]
    header = ["sampling", "step ms", "choosing tokens ms", "share", "target"]
    print(render(f"{options.requests} requests at once", header, lines))
    if options.json is not None:
        write_report(options.json, arguments, given(options), rows)


def _prompt(index: int, vocabulary: int) -> Prompt:
    """Different words, so that requests go different ways."""
    return tuple((1000 + 37 * index + place) % vocabulary for place in range(40))


def _row(kind: str, requests: int, windows: list[Window]) -> Row:
    steps = sum(window.steps for window in windows)
    if not steps:
        raise BenchmarkError(f"{kind}: the answers are too short to be decoded together")
    step_ms = 1e3 * sum(window.seconds for window in windows) / steps
    sample_ms = 1e3 * sum(window.times["sample"] for window in windows) / steps
    special = {"step_ms": step_ms, "sample_ms": sample_ms, "share": sample_ms / step_ms, "steps": steps}
    return Row(SECTION, TASK, kind, requests, special=special)
