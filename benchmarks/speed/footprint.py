"""Section `memory`: the whole service with its KV cache in use.

Runs before this process loads torch: pages of a library that two processes use count half in each, and the
service's share must not be lessened by the benchmark's own.
"""

from __future__ import annotations

from typing import Any

from benchmarks.answers import Prompt, Wave
from benchmarks.over_http import OverHttp
from benchmarks.report import Row
from benchmarks.speed.methods import EAGLE3_POOL_HTTP, POOL_HTTP
from benchmarks.speed.options import Options
from benchmarks.stack import Stack

SECTION = "memory"
TASK = "fill"
TOTAL = "total"
REQUESTS = 16
PROMPT_TOKENS = 1024
# Long enough that the last prompt is computed before the first answer ends: all are in the cache at once.
NEW_TOKENS = 96


def measure_memory(options: Options, settings: dict[str, Any], environment: dict[str, str]) -> list[Row]:
    """One row per kind of process, the sum last. Raises BenchmarkError when the service does not start."""
    method = EAGLE3_POOL_HTTP if options.has_head else POOL_HTTP
    settings = {**settings, "speculation.method": "auto", "speculation.head": options.head}
    with Stack(settings, environment) as stack, OverHttp(stack, NEW_TOKENS) as client:
        prompts = [_prompt(index, PROMPT_TOKENS) for index in range(REQUESTS)]
        filled = client.run(prompts, num_speculative_tokens=0)
        client.run(prompts, num_speculative_tokens=None)  # now drafter and verifier have all they ever hold
        processes = stack.memory()
    by_role: dict[str, list[int]] = {}
    for process in processes:
        by_role.setdefault(process.role, []).append(process.pss)
    rows = [_row(method, role, sizes) for role, sizes in by_role.items()]
    rows.sort(key=lambda row: -row.special["pss_bytes"])
    total = _row(method, TOTAL, [process.pss for process in processes])
    total.special["kv_tokens"] = _held(filled)
    return [*rows, total]


def _row(method: str, role: str, sizes: list[int]) -> Row:
    special = {"role": role, "processes": len(sizes), "pss_bytes": sum(sizes)}
    return Row(SECTION, TASK, method, REQUESTS, special=special)


def _prompt(index: int, length: int) -> Prompt:
    """The same few words over and over, each request from another one on: the model does not stop at that."""
    return tuple(300 + (place + index) % 16 for place in range(length))


def _held(wave: Wave) -> int | None:
    """Prompt tokens that were in the cache at once; None where an answer ended before another began."""
    return None if wave.window is None else REQUESTS * PROMPT_TOKENS
