"""CloudWatch's view of the metrics, from the text that the service really serves."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from serving import emf, metrics
from serving.metrics import EngineMetrics, RouterMetrics, StepReport
from serving.types import FinishReason

MODEL = "emf-test"


def finish(router: RouterMetrics, seconds: float) -> None:
    router.finished(
        FinishReason.STOP, prompt_tokens=3, completion_tokens=2, seconds=seconds, decode_seconds=0.1
    )


class Minutes:
    """Lines of a publisher that reads this process's own metrics."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._once = emf.publish(lambda: metrics.render().decode(), self._lines.append, "canopy-server")

    def next(self) -> dict[str, Any]:
        self._once()
        line = json.loads(self._lines.pop())
        assert isinstance(line, dict)
        return line


@pytest.fixture
def minutes() -> Minutes:
    """With both kinds of metrics there, and one minute gone."""
    RouterMetrics(MODEL).answered("/v1/models", 200)
    EngineMetrics(MODEL).observe_step(StepReport())
    finish(RouterMetrics(MODEL), 1.0)
    minutes = Minutes()
    minutes.next()
    return minutes


def test_counts_are_of_the_minute_and_gauges_of_now(minutes: Minutes) -> None:
    step = StepReport(running=2, waiting=5, decoding=2, drafts=2, draft_tokens=10, accepted_tokens=4)
    EngineMetrics(MODEL).observe_step(step)
    first, second = minutes.next(), minutes.next()
    assert first["vllm:num_requests_waiting"] >= 5  # other tests' models are in it, too
    assert second["vllm:num_requests_waiting"] == first["vllm:num_requests_waiting"]
    counters = ("vllm:spec_decode_num_draft_tokens", "vllm:spec_decode_num_accepted_tokens")
    assert [first[name] for name in counters] == [10, 4]
    assert [second[name] for name in counters] == [0, 0]


def test_slow_requests_are_those_above_five_seconds(minutes: Minutes) -> None:
    for seconds in (0.2, 5.0, 5.1, 600.0, 5000.0):
        finish(RouterMetrics(MODEL), seconds)
    line = minutes.next()
    assert (line["canopy:finished_requests"], line["canopy:slow_requests"]) == (5, 3)


def test_server_errors_are_a_part_of_requests(minutes: Minutes) -> None:
    for status in (200, 404, 500, 503):
        RouterMetrics(MODEL).answered("/v1/chat/completions", status)
    line = minutes.next()
    assert (line["canopy:http_requests"], line["canopy:http_server_errors"]) == (4, 2)


def test_a_replaced_process_counts_from_nothing() -> None:
    assert emf.since({"vllm:prompt_tokens": 100.0}, {"vllm:prompt_tokens": 7.0}) == {
        "vllm:prompt_tokens": 7.0
    }


def test_all_names_are_served(minutes: Minutes) -> None:
    """None of them is a metric that the service does not have (any more)."""
    EngineMetrics(MODEL).observe_step(StepReport(drafter_failures={"missing": 1}))
    RouterMetrics(MODEL).answered("/v1/models", 500)
    line = minutes.next()
    assert set(line) - {"_aws", "Service"} == emf.GAUGES | emf.COUNTERS | emf.DERIVED


def test_the_format() -> None:
    line = json.loads(emf.line({"vllm:num_requests_running": 1.0, "vllm:prompt_tokens": 2.0}, "s", 1.5))
    assert line == {
        "_aws": {
            "Timestamp": 1500,
            "CloudWatchMetrics": [
                {
                    "Namespace": "Canopy",
                    "Dimensions": [["Service"]],
                    "Metrics": [
                        {"Name": "vllm:num_requests_running", "Unit": "None"},
                        {"Name": "vllm:prompt_tokens", "Unit": "Count"},
                    ],
                }
            ],
        },
        "Service": "s",
        "vllm:num_requests_running": 1.0,
        "vllm:prompt_tokens": 2.0,
    }


def test_the_command_waits_for_the_process_beside_it() -> None:
    """Nobody answers yet: it says so, and goes on. Then it prints what is served."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3\n")

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
    server.server_bind()
    url = f"http://127.0.0.1:{server.server_address[1]}/metrics"
    command = [sys.executable, "-m", "serving.emf", "--url", url, "--service", "x", "--every", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert "no metrics" in json.loads(process.stdout.readline())["message"]
            server.server_activate()
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            lines = (json.loads(line) for line in process.stdout)
            assert next(line for line in lines if "_aws" in line)["vllm:num_requests_running"] == 3
        finally:
            process.kill()
            server.shutdown()
            server.server_close()
