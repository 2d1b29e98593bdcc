"""The service's figures for CloudWatch: a line per minute in its embedded metric format.

`python -m serving.emf --url http://127.0.0.1:8000/metrics --service canopy-router` runs beside a process that
serves Prometheus text. What it prints becomes metrics where its output is sent to CloudWatch Logs (namespace
Canopy, dimension Service); nothing else is called, and no credentials are needed. Names are the Prometheus
ones without `_total`; what alarms need and CloudWatch cannot compute is derived here. Format: "Specification:
Embedded metric format" in Amazon CloudWatch's user guide.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

NAMESPACE = "Canopy"
# Requests slower than this are counted: more than 1% of them mean a p99 above it. It bounds one of the
# histogram's buckets.
SLOW_S = 5.0

_LATENCY = "vllm:e2e_request_latency_seconds"
GAUGES = frozenset(
    {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"}
    | {"canopy:http_requests_in_flight", "canopy:draft_token_price"}
)
COUNTERS = frozenset(
    {"vllm:prompt_tokens", "vllm:generation_tokens", "vllm:num_preemptions", "vllm:spec_decode_num_drafts"}
    | {"vllm:spec_decode_num_draft_tokens", "vllm:spec_decode_num_accepted_tokens"}
    | {"canopy:drafter_failures", "canopy:http_requests"}
)
DERIVED = frozenset({"canopy:finished_requests", "canopy:slow_requests", "canopy:http_server_errors"})

Figures = dict[str, float]


def figures(text: str) -> Figures:
    """Name -> value: gauges as they are, counters since their processes started; labels are summed over."""
    found: Figures = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            for name, value in _contributions(sample):
                found[name] = found.get(name, 0.0) + value
    return found


def _contributions(sample: Sample) -> Iterator[tuple[str, float]]:
    name = sample.name.removesuffix("_total")
    if name in GAUGES | COUNTERS:
        yield name, sample.value
    if name == "canopy:http_requests" and sample.labels["status"].startswith("5"):
        yield "canopy:http_server_errors", sample.value
    if name == f"{_LATENCY}_count":
        yield "canopy:finished_requests", sample.value
        yield "canopy:slow_requests", sample.value
    if name == f"{_LATENCY}_bucket" and float(sample.labels["le"]) == SLOW_S:
        yield "canopy:slow_requests", -sample.value


def since(before: Figures, now: Figures) -> Figures:
    """Gauges of now, and what counters gained. One that fell counts from 0: its process was replaced."""
    return {
        name: value if name in GAUGES else _gained(before.get(name, 0.0), value)
        for name, value in now.items()
    }


def _gained(before: float, now: float) -> float:
    return now - before if now >= before else now


def line(values: Mapping[str, float], service: str, at: float) -> str:
    """The figures of a minute as CloudWatch reads them. `at` in seconds since the epoch."""
    metrics = [{"Name": name, "Unit": "None" if name in GAUGES else "Count"} for name in sorted(values)]
    directive = {"Namespace": NAMESPACE, "Dimensions": [["Service"]], "Metrics": metrics}
    head = {"_aws": {"Timestamp": int(at * 1000), "CloudWatchMetrics": [directive]}, "Service": service}
    return json.dumps(head | dict(values))


def publish(read: Callable[[], str], write: Callable[[str], object], service: str) -> Callable[[], None]:
    """What is called once a minute. Its first call has nothing to compare with, and writes gauges only."""
    before: Figures | None = None

    def once() -> None:
        nonlocal before
        try:
            now = figures(read())
        except (OSError, ValueError) as error:
            write(json.dumps({"level": "WARNING", "message": f"no metrics: {error}"}))
            return
        known = now if before is not None else {name: now[name] for name in now if name in GAUGES}
        write(line(since(before or {}, known), service, time.time()))
        before = now

    return once


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m serving.emf", description=__doc__)
    parser.add_argument("--url", required=True, help="Prometheus text of the process beside")
    parser.add_argument("--service", required=True, help="value of the dimension Service")
    parser.add_argument("--every", type=float, default=60, help="seconds between two lines")
    given = parser.parse_args()

    def read() -> str:
        with urllib.request.urlopen(given.url, timeout=5) as response:
            return str(response.read().decode())

    def write(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    once = publish(read, write, given.service)
    while True:
        once()
        time.sleep(given.every)


if __name__ == "__main__":
    main()
