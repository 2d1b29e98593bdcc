"""From a load to machines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from deploy.planning.machines import Machine, Prices
from deploy.planning.roofline import PLAIN, Speculation, Verifier
from deploy.planning.shape import Shape

HOURS_PER_MONTH = 730
RANKS = (1, 2, 4, 8)


class Load(NamedTuple):
    """`rate`: requests per second; lengths in tokens. `tpot_s`: what a token after the first may take.
    `utilisation`: the share of its capacity that a replica is planned for; `min_replicas`: one may be lost.
    """

    rate: float
    prompt: int
    output: int
    tpot_s: float
    utilisation: float
    min_replicas: int
    max_sequences: int

    @property
    def context(self) -> float:
        """Tokens that a sequence has on average while it is written."""
        return self.prompt + self.output / 2


class Operation(NamedTuple):
    """A replica at its limit. `rate`: requests per second; `speculates`: whether drafting pays there."""

    sequences: int
    rate: float
    tpot_s: float
    speculates: bool


class Option(NamedTuple):
    """A way to carry a load. `cost`: US dollars per month, on demand; `throughput`: tokens/s at the limit."""

    machine: Machine
    ranks: int
    replicas: int
    machines: int
    at_limit: Operation
    ttft_s: float
    cost: float
    throughput: float

    def cost_per_million(self, load: Load) -> float:
        """US dollars per million tokens written, at the planned load."""
        return self.cost / (load.rate * load.output * HOURS_PER_MONTH * 3600) * 1e6


def options(
    shape: Shape, load: Load, speculation: Speculation, machines: Sequence[Machine], prices: Prices
) -> list[Option]:
    """All that carry the load, the cheapest first. Machines without a price are left out."""
    found = [
        option
        for machine in machines
        if machine.name in prices.per_hour
        for option in _on(machine, shape, load, speculation, prices.per_hour[machine.name])
    ]
    return sorted(found, key=lambda option: (option.cost, option.ranks))


def _on(
    machine: Machine, shape: Shape, load: Load, speculation: Speculation, price: float
) -> Iterator[Option]:
    for ranks in RANKS:
        if machine.gpus % ranks or not shape.divides_by(ranks):
            continue
        verifier = Verifier(shape, machine.gpu, ranks)
        at_limit = _limit(verifier, load, speculation)
        if at_limit is None:
            continue
        replicas = max(load.min_replicas, math.ceil(load.rate / (at_limit.rate * load.utilisation)))
        count = math.ceil(replicas * ranks / machine.gpus)
        yield Option(
            machine=machine,
            ranks=ranks,
            replicas=replicas,
            machines=count,
            at_limit=at_limit,
            ttft_s=verifier.prefill_s(load.prompt) + at_limit.tpot_s,
            cost=count * price * HOURS_PER_MONTH,
            throughput=replicas * at_limit.rate * load.output,
        )


def _limit(verifier: Verifier, load: Load, speculation: Speculation) -> Operation | None:
    """The fullest batch whose tokens still come in time; None when not one request fits."""
    fit = min(load.max_sequences, verifier.kv_tokens // (load.prompt + load.output))
    in_time = [
        operation
        for sequences in range(1, fit + 1)
        if (operation := _operation(verifier, load, speculation, sequences)).tpot_s <= load.tpot_s
    ]
    return max(in_time, key=lambda operation: operation.rate, default=None)


def _operation(verifier: Verifier, load: Load, speculation: Speculation, sequences: int) -> Operation:
    """The service drafts only where that pays, so the better of both is what it does."""
    plain = _rate(verifier, load, PLAIN, sequences)
    drafted = _rate(verifier, load, speculation, sequences)
    rate = max(plain, drafted)
    # Little's law: `sequences` are being written, each for `output` tokens.
    return Operation(sequences, rate, sequences / (rate * load.output), drafted > plain)


def _rate(verifier: Verifier, load: Load, speculation: Speculation, sequences: int) -> float:
    """Requests per second: a request takes its prefill and its share of the steps that write it."""
    steps = load.output / speculation.acceptance_length
    written = steps * verifier.step_s(sequences, load.context, speculation) / sequences
    return 1 / (verifier.prefill_s(load.prompt) + written)
