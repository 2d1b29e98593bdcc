"""`python -m benchmarks soak`, from the options to the table and the figure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field

from tqdm import tqdm

from benchmarks.chaos.asks import make_asks
from benchmarks.chaos.load import Answered, Load
from benchmarks.chaos.service import Service
from benchmarks.chaos.soak.judged import Judged, judge
from benchmarks.chaos.soak.options import SoakOptions
from benchmarks.chaos.soak.samples import Sample, take_sample
from benchmarks.chaos.soak.tables import chart, print_table, rows
from benchmarks.chaos.start import started
from benchmarks.errors import BenchmarkError
from benchmarks.parsing import written
from benchmarks.report import write_report

REQUESTS = 2000
"""Different ones; then again from the first."""
SHOWN_FAILURES = 10


@dataclass(slots=True)
class _Clients:
    """What they got: counted, not kept."""

    answers: int = 0
    failures: list[str] = field(default_factory=list)

    def take(self, answer: Answered) -> None:
        self.answers += 1
        if answer.reply.error is not None and len(self.failures) < SHOWN_FAILURES:
            self.failures.append(answer.reply.error)


def run(options: SoakOptions, arguments: list[str]) -> None:
    """Raises BenchmarkError when the service does not start, and for what grew or failed."""
    clients = _Clients()
    with started(options) as service:
        samples = asyncio.run(_measure(options, service, clients))
    judged = _judged(options, samples, clients, service.shape.processes)
    print_table(judged)
    if options.figure is not None:
        chart(samples, options.warm_up * options.minutes, options.figure)
    if options.json is not None:
        write_report(options.json, arguments, written(asdict(options)), rows(judged, samples))
    if judged.troubles:
        raise BenchmarkError("; ".join(judged.troubles))


async def _measure(options: SoakOptions, service: Service, clients: _Clients) -> list[Sample]:
    asks = make_asks(REQUESTS, options.max_tokens, options.seed)
    load = Load(service.url, asks, options.concurrency, clients.take, least=0)
    return await load.during(_sample(options, service))


async def _sample(options: SoakOptions, service: Service) -> list[Sample]:
    samples, began = [], time.monotonic()
    with tqdm(total=round(options.minutes * 60), unit="s") as bar:
        while (passed := time.monotonic() - began) < options.minutes * 60:
            samples.append(await asyncio.to_thread(take_sample, service, passed / 60))
            await asyncio.sleep(options.every_s)
            bar.update(round(time.monotonic() - began) - bar.n)
    return samples


def _judged(
    options: SoakOptions, samples: Sequence[Sample], clients: _Clients, roles: Collection[str]
) -> Judged:
    steady = [sample for sample in samples if sample.minutes >= options.warm_up * options.minutes]
    if len(steady) < 3:
        raise BenchmarkError(f"{len(steady)} samples after the warm-up say nothing: soak for longer")
    return judge(steady, clients.answers, clients.failures, roles)
