"""Prometheus metrics of every process. Names are vLLM's where the meaning is, so that its dashboards work.

Each process can serve its own values (`start_exporter`) to a cluster's scraper. On one machine the processes
also share a directory (PROMETHEUS_MULTIPROC_DIR, in the environment before this module is imported), from
which any of them renders the sum of all (`render`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import psutil
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
    start_http_server,
)
from prometheus_client.multiprocess import MultiProcessCollector

from serving.types import FinishReason

# No `_created` series beside every counter: merged views cannot have them.
disable_created_metrics()  # type: ignore[no-untyped-call]
if (_shared := os.environ.get("PROMETHEUS_MULTIPROC_DIR")) is not None:
    Path(_shared).mkdir(parents=True, exist_ok=True)  # the first process of each machine makes it
logger = logging.getLogger(__name__)

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

_MODEL = ("model_name",)
_TOKEN_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5, 10, 40)
_FIRST_TOKEN_BUCKETS = (0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 20, 80, 640)
_REQUEST_BUCKETS = (0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960)
_PHASE_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)

_RATIO_BUCKETS = (0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.5, 2, 4)


def _histogram(name: str, text: str, buckets: tuple[float, ...], labels: tuple[str, ...] = ()) -> Histogram:
    return Histogram(name, text, _MODEL + labels, buckets=buckets, registry=REGISTRY)


def _counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
    return Counter(name, text, _MODEL + labels, registry=REGISTRY)


def _gauge(name: str, text: str, merged: str, labels: tuple[str, ...] = ()) -> Gauge:
    """`merged`: how values of several live processes become one. A dead process's value vanishes."""
    mode: Any = merged
    return Gauge(name, text, _MODEL + labels, registry=REGISTRY, multiprocess_mode=mode)


# Counted at the router, per choice.
_FIRST_TOKEN = _histogram(
    "vllm:time_to_first_token_seconds", "From a request's arrival to its first token.", _FIRST_TOKEN_BUCKETS
)
_INTER_TOKEN = _histogram(
    "vllm:inter_token_latency_seconds",
    "Between two deliveries of tokens; one may carry several.",
    _TOKEN_BUCKETS,
)
_PER_OUTPUT_TOKEN = _histogram(
    "vllm:request_time_per_output_token_seconds",
    "A request's mean time per token after the first.",
    _TOKEN_BUCKETS,
)
_END_TO_END = _histogram(
    "vllm:e2e_request_latency_seconds", "From arrival to the last token.", _REQUEST_BUCKETS
)
_SUCCESS = _counter("vllm:request_success", "Requests by the reason they ended.", ("finished_reason",))
_PROMPT_TOKENS = _counter("vllm:prompt_tokens", "Tokens of the prompts.")
_GENERATION_TOKENS = _counter("vllm:generation_tokens", "Tokens generated.")
_REPLAYS = _counter(
    "canopy:replays",
    "Times that a request went on elsewhere: its verifier was lost, or was to go (migrated).",
    ("reason",),
)
_QUEUED = _gauge("canopy:requests_queued", "Requests that no verifier has taken yet, in routers.", "livesum")
_REJECTED = _counter(
    "canopy:requests_rejected",
    "Requests sent away: the queue was full (overloaded), nothing was in service (unavailable), ...",
    ("reason",),
)
_PLACED = _counter(
    "canopy:requests_placed",
    "Requests that a verifier took: the one that has their prefix if any (home), or another that had less to "
    "do (elsewhere).",
    ("where",),
)
_HTTP_REQUESTS = _counter("canopy:http_requests", "HTTP requests by route and status.", ("route", "status"))
_HTTP_IN_FLIGHT = _gauge("canopy:http_requests_in_flight", "HTTP requests being answered.", "livesum")

# Counted at the engine, per step.
_RUNNING = _gauge("vllm:num_requests_running", "Requests in the running batch.", "livesum")
_WAITING = _gauge("vllm:num_requests_waiting", "Requests that wait to be scheduled.", "livesum")
_KV_USAGE = _gauge(
    "vllm:kv_cache_usage_perc", "Used share of the KV cache, 1 = full; the fullest verifier.", "livemax"
)
_PREEMPTIONS = _counter("vllm:num_preemptions", "Requests preempted because KV blocks ran out.")
_PREFIX_QUERIES = _counter(
    "vllm:prefix_cache_queries", "Tokens of started requests that were looked for in the prefix cache."
)
_PREFIX_HITS = _counter(
    "vllm:prefix_cache_hits", "Those of them that were found: the hit rate is hits / queries."
)
_DRAFTS = _counter("vllm:spec_decode_num_drafts", "Draft trees verified.")
_DRAFT_TOKENS = _counter("vllm:spec_decode_num_draft_tokens", "Draft tokens verified.")
_ACCEPTED = _counter("vllm:spec_decode_num_accepted_tokens", "Draft tokens accepted.")
_ACCEPTED_PER_POS = _counter(
    "vllm:spec_decode_num_accepted_tokens_per_pos",
    "Draft tokens accepted at depth position + 1.",
    ("position",),
)
_DRAFTS_WANTED = _gauge("canopy:drafts_wanted", "Sequences that draft trees are asked for.", "livesum")
_PLAIN_STEPS = _counter("canopy:plain_steps", "Decode steps that verified no draft token.")
_DECODE_STEPS = _counter("canopy:decode_steps", "Steps in which sequences decoded.")
_CHOSEN_M = _histogram(
    "canopy:draft_tokens_per_sequence",
    "m: draft tokens verified per decoding sequence and step.",
    (0, 0.5, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64),
)
_PRICE = _gauge(
    "canopy:draft_token_price", "Chance of acceptance that is just worth a row of verification.", "livemax"
)
_STEP_TIME_RATIO = _histogram(
    "canopy:step_time_ratio", "Seconds of a step, drafting excluded, over those predicted.", _RATIO_BUCKETS
)
_STEP_TOKENS_RATIO = _histogram(
    "canopy:step_tokens_ratio", "Tokens that a step's decodes committed over those predicted.", _RATIO_BUCKETS
)
_DRAFTER_FAILURES = _counter(
    "canopy:drafter_failures",
    "Sequences that decoded plainly in a step: their tree came too late (missing), or no drafter knew them "
    "(unknown).",
    ("reason",),
)
_FED_TOKENS = _counter("canopy:draft_fed_tokens", "Committed tokens that drafters of the pool were sent.")
_FED_BYTES = _counter(
    "canopy:draft_fed_bytes",
    "Bytes of features that were sent with them: in the message (inline) or beside it (object_store, rdt).",
    ("path",),
)
_DRAFT_SECONDS = _counter(
    "canopy:draft_seconds",
    "Drafters' own time, by whether the verifier waited for it (waited) or was busy meanwhile (hidden).",
    ("part",),
)
_CALIBRATION_ERROR = _gauge(
    "canopy:calibration_error",
    "Expected calibration error of draft confidences: as the drafter gives them (raw) and calibrated; the "
    "worst verifier's.",
    "livemax",
    ("stage",),
)
_STEP_PHASES = _histogram(
    "canopy:step_phase_seconds", "Time of a step, by phase.", _PHASE_BUCKETS, ("phase",)
)


class RouterMetrics:
    """What a router counts."""

    def __init__(self, model_name: str) -> None:
        self._model = model_name
        self._first_token = _FIRST_TOKEN.labels(model_name)
        self._inter_token = _INTER_TOKEN.labels(model_name)
        self._per_output_token = _PER_OUTPUT_TOKEN.labels(model_name)
        self._end_to_end = _END_TO_END.labels(model_name)
        self._success = {reason: _SUCCESS.labels(model_name, reason.value) for reason in FinishReason}
        self._prompt_tokens = _PROMPT_TOKENS.labels(model_name)
        self._generation_tokens = _GENERATION_TOKENS.labels(model_name)
        self.in_flight = _HTTP_IN_FLIGHT.labels(model_name)
        self._queued = _QUEUED.labels(model_name)

    def first_token(self, seconds: float) -> None:
        """`seconds` since the request arrived."""
        self._first_token.observe(seconds)

    def next_tokens(self, seconds: float) -> None:
        """`seconds` since the choice's previous tokens."""
        self._inter_token.observe(seconds)

    def finished(
        self,
        outcome: FinishReason,
        *,
        prompt_tokens: int,
        completion_tokens: int,
        seconds: float,
        decode_seconds: float,
    ) -> None:
        """A choice ended, well or not. `decode_seconds`: from its first tokens to its last."""
        self._success[outcome].inc()
        self._prompt_tokens.inc(prompt_tokens)
        self._generation_tokens.inc(completion_tokens)
        self._end_to_end.observe(seconds)
        if completion_tokens > 1:
            self._per_output_token.observe(decode_seconds / (completion_tokens - 1))

    def replayed(self, reason: Literal["lost", "migrated"]) -> None:
        """A request goes on elsewhere."""
        _REPLAYS.labels(self._model, reason).inc()

    def queued(self, requests: int) -> None:
        """So many of this router's requests wait for a verifier."""
        self._queued.set(requests)

    def rejected(self, reason: str) -> None:
        """A request was sent away: `reason` is its error's code."""
        _REJECTED.labels(self._model, reason).inc()

    def answered(self, route: str, status: int) -> None:
        """`route` is the path's pattern, not what the client wrote."""
        _HTTP_REQUESTS.labels(self._model, route, str(status)).inc()


class PlacingMetrics:
    """What is counted where requests are given to verifiers."""

    def __init__(self, model_name: str) -> None:
        self._home = _PLACED.labels(model_name, "home")
        self._elsewhere = _PLACED.labels(model_name, "elsewhere")

    def placed(self, *, at_home: bool) -> None:
        """A verifier has taken a request; at_home: the first in the order of its prefix."""
        (self._home if at_home else self._elsewhere).inc()


@dataclass(slots=True)
class StepReport:
    """One engine step in numbers.

    kv_usage in 0..1; phase_seconds by name (schedule, draft, forward, ...); accepted_per_position[d]:
    sequences whose draft token at depth d + 1 was accepted; drafter_failures by reason (missing, unknown);
    prefix_queries, prefix_hits in tokens; calibration_error by stage (raw, calibrated), empty while unknown.
    drafts_wanted: sequences that trees were asked for, for this step.
    hidden_draft_s: of drafters' own time, what passed while other steps ran.
    price: path value that is just worth a row of verification. step_seconds: of the step without drafting.
    predicted_*: by the choice of m, None where it does not.
    """

    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    preemptions: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    decoding: int = 0
    drafts_wanted: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: Sequence[int] = ()
    drafter_failures: Mapping[str, int] = field(default_factory=dict)
    calibration_error: Mapping[str, float] = field(default_factory=dict)
    phase_seconds: Mapping[str, float] = field(default_factory=dict)
    hidden_draft_s: float = 0.0
    price: float = 0.0
    committed_tokens: int = 0
    step_seconds: float = 0.0
    predicted_tokens: float | None = None
    predicted_seconds: float | None = None


class EngineMetrics:
    """What a step loop counts."""

    def __init__(self, model_name: str) -> None:
        self._model = model_name
        self._running = _RUNNING.labels(model_name)
        self._waiting = _WAITING.labels(model_name)
        self._kv_usage = _KV_USAGE.labels(model_name)
        self._preemptions = _PREEMPTIONS.labels(model_name)
        self._prefix_queries = _PREFIX_QUERIES.labels(model_name)
        self._prefix_hits = _PREFIX_HITS.labels(model_name)
        self._drafts_wanted = _DRAFTS_WANTED.labels(model_name)
        self._drafts = _DRAFTS.labels(model_name)
        self._draft_tokens = _DRAFT_TOKENS.labels(model_name)
        self._accepted = _ACCEPTED.labels(model_name)
        self._plain_steps = _PLAIN_STEPS.labels(model_name)
        self._decode_steps = _DECODE_STEPS.labels(model_name)
        self._chosen_m = _CHOSEN_M.labels(model_name)
        self._price = _PRICE.labels(model_name)
        self._step_time_ratio = _STEP_TIME_RATIO.labels(model_name)
        self._step_tokens_ratio = _STEP_TOKENS_RATIO.labels(model_name)
        self._hidden_draft_s = _DRAFT_SECONDS.labels(model_name, "hidden")
        self._waited_draft_s = _DRAFT_SECONDS.labels(model_name, "waited")
        # By another label, looked up once: a step counts a dozen of them.
        self._accepted_at = cache(partial(_ACCEPTED_PER_POS.labels, model_name))
        self._failures = cache(partial(_DRAFTER_FAILURES.labels, model_name))
        self._calibration = cache(partial(_CALIBRATION_ERROR.labels, model_name))
        self._phase = cache(partial(_STEP_PHASES.labels, model_name))

    def observe_step(self, step: StepReport) -> None:
        self._running.set(step.running)
        self._waiting.set(step.waiting)
        self._kv_usage.set(step.kv_usage)
        self._preemptions.inc(step.preemptions)
        self._prefix_queries.inc(step.prefix_queries)
        self._prefix_hits.inc(step.prefix_hits)
        self._drafts_wanted.set(step.drafts_wanted)
        self._drafts.inc(step.drafts)
        self._draft_tokens.inc(step.draft_tokens)
        self._accepted.inc(step.accepted_tokens)
        self._price.set(step.price)
        self._hidden_draft_s.inc(step.hidden_draft_s)
        self._waited_draft_s.inc(step.phase_seconds.get("draft", 0.0))
        if step.decoding:
            self._observe_decoding(step)
        for position, count in enumerate(step.accepted_per_position):
            self._accepted_at(str(position)).inc(count)
        for reason, count in step.drafter_failures.items():
            self._failures(reason).inc(count)
        for stage, error in step.calibration_error.items():
            self._calibration(stage).set(error)
        for phase, seconds in step.phase_seconds.items():
            self._phase(phase).observe(seconds)

    def _observe_decoding(self, step: StepReport) -> None:
        self._decode_steps.inc()
        self._chosen_m.observe(step.draft_tokens / step.decoding)
        if not step.draft_tokens:
            self._plain_steps.inc()
        if step.predicted_seconds:
            self._step_time_ratio.observe(step.step_seconds / step.predicted_seconds)
        if step.predicted_tokens:
            self._step_tokens_ratio.observe(step.committed_tokens / step.predicted_tokens)


class WireMetrics:
    """What a verifier sends to drafters of the pool; also kept here, by path, for whoever measures."""

    def __init__(self, model_name: str) -> None:
        self._model = model_name
        self.tokens = 0
        self.bytes: dict[str, int] = {}

    def sent(self, tokens: int, size: int, path: str) -> None:
        """Committed tokens with `size` bytes of features. path: inline, object_store or rdt."""
        self.tokens += tokens
        self.bytes[path] = self.bytes.get(path, 0) + size
        _FED_TOKENS.labels(self._model).inc(tokens)
        _FED_BYTES.labels(self._model, path).inc(size)


def start_exporter(port: int = 0) -> int:
    """Serve this process's own metrics over HTTP from a daemon thread, and log and return the port.

    0 picks one. So does a port that is taken: a second replica on a node must not fail for its metrics.
    """
    try:
        server, _ = start_http_server(port, registry=REGISTRY)
    except OSError:
        logger.warning("metrics port taken", extra={"fields": {"port": port}})
        server, _ = start_http_server(0, registry=REGISTRY)
    logger.info("serving metrics", extra={"fields": {"port": server.server_port}})
    return server.server_port


def render() -> bytes:
    """Prometheus text of all processes that share the directory, or of this process alone without one."""
    directory = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if directory is None:
        return generate_latest(REGISTRY)
    _forget_dead_processes(directory)
    merged = CollectorRegistry()
    MultiProcessCollector(merged, path=directory)  # type: ignore[no-untyped-call]
    return generate_latest(merged)


def _forget_dead_processes(directory: str) -> None:
    """Take the gauges of ended processes away; what they counted stays.

    prometheus_client's `mark_process_dead` fails where another scrape takes the same file away.
    """
    for path in Path(directory).glob("gauge_live*_*.db"):
        if not psutil.pid_exists(int(path.stem.rsplit("_", 1)[1])):
            path.unlink(missing_ok=True)
