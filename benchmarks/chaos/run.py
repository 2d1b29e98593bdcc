"""`python -m benchmarks chaos`, from the options to the tables."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import NoReturn

from tqdm import tqdm

from benchmarks.chaos.asks import Ask, make_asks
from benchmarks.chaos.bench import Bench, Result
from benchmarks.chaos.leaks import Footprint, footprint, settled
from benchmarks.chaos.load import Answered, Load
from benchmarks.chaos.options import ChaosOptions
from benchmarks.chaos.replies import Reply
from benchmarks.chaos.rows import Checked, row
from benchmarks.chaos.scenarios.drain import drain
from benchmarks.chaos.scenarios.failover import failover
from benchmarks.chaos.scenarios.kills import kills
from benchmarks.chaos.scenarios.node import node
from benchmarks.chaos.scenarios.rolling import rolling
from benchmarks.chaos.scenarios.router import router
from benchmarks.chaos.service import Service
from benchmarks.chaos.start import started
from benchmarks.chaos.tables import print_tables
from benchmarks.errors import BenchmarkError
from benchmarks.parsing import written
from benchmarks.report import write_report

RUN: dict[str, Callable[[Bench], Awaitable[Result]]] = {
    "kills": kills,
    "failover": failover,
    "router": router,
    "rolling": rolling,
    "drain": drain,
    "node": node,
}


def run(options: ChaosOptions, arguments: list[str]) -> None:
    """Raises BenchmarkError when the service does not start, and, after all reports, for what failed."""
    with started(options) as service:
        checked = asyncio.run(_measure(options, service))
    rows = [row(options, each) for each in checked]
    print_tables(checked)
    if options.json is not None:
        write_report(options.json, arguments, written(asdict(options)), rows)
    if failed := [each.result.scenario for each in checked if not each.passed]:
        raise BenchmarkError(f"not everything went well: {', '.join(failed)}")


async def _measure(options: ChaosOptions, service: Service) -> list[Checked]:
    asks = make_asks(options.requests, options.max_tokens, options.seed)
    with tqdm(unit="answer") as bar:
        undisturbed = await _undisturbed(service, asks, options.concurrency, bar)
        bench = Bench(service, options, asks, undisturbed, bar.update)
        before = await asyncio.to_thread(footprint, service)
        return [await _checked(bench, name, before, bar) for name in options.scenarios]


async def _undisturbed(
    service: Service, asks: Sequence[Ask], concurrency: int, bar: tqdm[NoReturn]
) -> list[Reply]:
    """Raises BenchmarkError where a request fails although nothing died."""
    bar.set_description("undisturbed")
    replies: dict[int, Reply] = {}

    def take(answer: Answered) -> None:
        replies[answer.place] = answer.reply
        bar.update()

    await Load(service.url, asks, concurrency, take).run()
    for reply in replies.values():
        if not reply.complete:
            raise BenchmarkError(f"a request failed while nothing died: {reply.error}")
    return [replies[place] for place in range(len(asks))]


async def _checked(bench: Bench, name: str, before: Footprint, bar: tqdm[NoReturn]) -> Checked:
    """A scenario, and what it leaves behind."""
    bar.set_description(name)
    try:
        result = await RUN[name](bench)
    except BenchmarkError as error:
        result = Result(name, troubles=(str(error),))
    after = await asyncio.to_thread(settled, bench.service, before)
    checked = Checked(result, after, tuple(after.left_over(before)))
    bar.write(f"{name}: {'passed' if checked.passed else 'FAILED'}")
    return checked
