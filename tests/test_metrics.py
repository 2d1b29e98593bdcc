"""Metrics of several real processes: each process's own, and all of a machine merged."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

# A process that counts something, serves its own metrics, and lives until its stdin closes.
PROCESS = """
import sys
from serving.metrics import *
from serving.types import FinishReason

{work}
print(start_exporter(), flush=True)
sys.stdin.read()
"""
VERIFIER = """
EngineMetrics("m").observe_step(StepReport(
    running={running}, waiting=1, kv_usage={kv_usage}, preemptions=1, decoding=2, drafts=2, draft_tokens=16,
    accepted_tokens=5, accepted_per_position=[2, 2, 1], drafter_failures={{"timeout": 1}},
    prefix_queries=100, prefix_hits=64, calibration_error={{"raw": 0.125, "calibrated": {error}}},
    phase_seconds={{"forward": 0.03, "schedule": 0.0001, "draft": 0.002}}, price=0.125, hidden_draft_s=0.006,
    committed_tokens=9, predicted_tokens=10.0, step_seconds=0.033, predicted_seconds=0.030,
))
EngineMetrics("m").observe_step(StepReport(running={running}, waiting=1, kv_usage={kv_usage}, decoding=1))
WireMetrics("m").sent(12, 4096, "inline")
"""
ROUTER = """
metrics = RouterMetrics("m")
metrics.in_flight.inc()
metrics.first_token(0.2)
metrics.next_tokens(0.01)
metrics.finished(FinishReason.STOP, prompt_tokens=7, completion_tokens=3, seconds=0.5, decode_seconds=0.3)
metrics.answered("/v1/completions", 200)
"""
RENDER = "import sys; from serving.metrics import render; sys.stdout.buffer.write(render())"

RENDER_AT_ONCE = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from serving.metrics import render
together = Barrier(8)
with ThreadPoolExecutor(8) as pool:
    list(pool.map(lambda _: (together.wait(), render()), range(8)))
"""

Sample = Callable[..., float | None]


class Process:
    def __init__(self, work: str, directory: Path | None) -> None:
        self.inner = subprocess.Popen(
            [sys.executable, "-c", PROCESS.format(work=work)],
            env=environment(directory),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.inner.stdout is not None
        self.port = int(self.inner.stdout.readline())

    def scrape(self) -> Sample:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as response:
            return samples(response.read().decode())

    def kill(self) -> None:
        self.inner.kill()
        self.inner.wait()


def environment(directory: Path | None) -> dict[str, str]:
    import os

    shared = {} if directory is None else {"PROMETHEUS_MULTIPROC_DIR": str(directory)}
    return {name: value for name, value in os.environ.items() if not name.startswith("PROMETHEUS")} | shared


def samples(text: str) -> Sample:
    """Look a value up by sample name and labels (`model_name` is always m); None where there is none."""
    known = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    return lambda name, **labels: known.get((name, frozenset({"model_name": "m", **labels}.items())))


def merged(directory: Path) -> Sample:
    done = subprocess.run(
        [sys.executable, "-c", RENDER], env=environment(directory), capture_output=True, check=True
    )
    return samples(done.stdout.decode())


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    with ExitStack() as running:

        def starter(work: str, directory: Path | None = tmp_path) -> Process:
            process = Process(work, directory)
            running.callback(process.kill)
            return process

        yield starter


def test_one_process_alone(start: Callable[..., Process]) -> None:
    value = start(VERIFIER.format(running=3, kv_usage=0.25, error=0.25), None).scrape()
    assert value("vllm:num_requests_running") == 3
    assert value("vllm:num_requests_waiting") == 1
    assert value("vllm:kv_cache_usage_perc") == 0.25
    assert value("vllm:num_preemptions_total") == 1
    assert value("vllm:prefix_cache_queries_total") == 100
    assert value("vllm:prefix_cache_hits_total") == 64
    assert value("vllm:spec_decode_num_drafts_total") == 2
    assert value("vllm:spec_decode_num_draft_tokens_total") == 16
    assert value("vllm:spec_decode_num_accepted_tokens_total") == 5
    per_position = [
        value("vllm:spec_decode_num_accepted_tokens_per_pos_total", position=str(i)) for i in range(4)
    ]
    assert per_position == [2, 2, 1, None]
    assert value("canopy:plain_steps_total") == 1
    assert value("canopy:decode_steps_total") == 2
    assert value("canopy:draft_tokens_per_sequence_sum") == 8
    assert value("canopy:step_time_ratio_sum") == pytest.approx(1.1)
    assert value("canopy:step_tokens_ratio_sum") == pytest.approx(0.9)
    assert value("canopy:step_tokens_ratio_count") == 1
    assert value("canopy:drafter_failures_total", reason="timeout") == 1
    assert value("canopy:draft_seconds_total", part="hidden") == 0.006
    assert value("canopy:draft_seconds_total", part="waited") == 0.002
    assert value("canopy:draft_fed_tokens_total") == 12
    assert value("canopy:draft_fed_bytes_total", path="inline") == 4096
    assert value("canopy:calibration_error", stage="raw") == 0.125
    assert value("canopy:calibration_error", stage="calibrated") == 0.25
    assert value("canopy:step_phase_seconds_count", phase="forward") == 1
    assert value("canopy:step_phase_seconds_sum", phase="forward") == 0.03


def test_a_routers_own(start: Callable[..., Process]) -> None:
    value = start(ROUTER, None).scrape()
    assert value("vllm:time_to_first_token_seconds_sum") == 0.2
    assert value("vllm:inter_token_latency_seconds_sum") == 0.01
    assert value("vllm:e2e_request_latency_seconds_sum") == 0.5
    assert value("vllm:request_time_per_output_token_seconds_sum") == 0.15
    assert value("vllm:request_success_total", finished_reason="stop") == 1
    assert value("vllm:request_success_total", finished_reason="length") == 0
    assert value("vllm:prompt_tokens_total") == 7
    assert value("vllm:generation_tokens_total") == 3
    assert value("canopy:http_requests_total", route="/v1/completions", status="200") == 1


def test_a_machine_merged_and_each_its_own(start: Callable[..., Process], tmp_path: Path) -> None:
    one = start(VERIFIER.format(running=3, kv_usage=0.25, error=0.25))
    two = start(VERIFIER.format(running=4, kv_usage=0.75, error=0.5))
    router = start(ROUTER)

    for process, running in ((one, 3), (two, 4)):
        own = process.scrape()
        assert own("vllm:num_requests_running") == running
        assert own("vllm:spec_decode_num_draft_tokens_total") == 16
        assert own("vllm:prompt_tokens_total") is None
    assert router.scrape()("vllm:prompt_tokens_total") == 7

    value = merged(tmp_path)
    assert value("vllm:num_requests_running") == 7
    assert value("vllm:kv_cache_usage_perc") == 0.75
    assert value("canopy:calibration_error", stage="calibrated") == 0.5
    assert value("vllm:spec_decode_num_draft_tokens_total") == 32
    assert value("canopy:step_phase_seconds_count", phase="forward") == 2
    assert value("vllm:prompt_tokens_total") == 7
    assert value("canopy:http_requests_in_flight") == 1


def test_a_dead_process_leaves_its_counts_but_not_its_gauges(
    start: Callable[..., Process], tmp_path: Path
) -> None:
    start(VERIFIER.format(running=3, kv_usage=0.25, error=0.25))
    dying = start(VERIFIER.format(running=4, kv_usage=0.75, error=0.5))
    assert merged(tmp_path)("vllm:num_requests_running") == 7
    dying.kill()
    value = merged(tmp_path)
    assert value("vllm:num_requests_running") == 3
    assert value("vllm:kv_cache_usage_perc") == 0.25
    assert value("vllm:spec_decode_num_draft_tokens_total") == 32


def test_scrapes_at_the_same_time_take_the_same_gauges_away(
    start: Callable[..., Process], tmp_path: Path
) -> None:
    dying = start(VERIFIER.format(running=4, kv_usage=0.75, error=0.5))
    dying.kill()
    (gauge,) = tmp_path.glob("gauge_livesum_*.db")
    for pid in range(10_000_000, 10_000_500):  # above what Linux gives out
        (tmp_path / f"gauge_livesum_{pid}.db").write_bytes(gauge.read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", RENDER_AT_ONCE], env=environment(tmp_path), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("gauge_live*.db"))
