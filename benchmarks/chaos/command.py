"""`python -m benchmarks chaos` on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.chaos.options import GENERATED, KINDS, SCENARIOS, ChaosOptions
from benchmarks.parsing import DTYPES, add_parser, check_output, count, from_flags, names, setting


def add_command(commands: Any) -> None:
    parser = add_parser(
        commands,
        "chaos",
        help="the service under load while its parts are killed, replaced and drained",
        description="Starts the service on a Ray cluster of several nodes, asks it the same requests with "
        "and without harm, compares the answers, and looks for what was left behind. Fails if anything did.",
    )
    parser.set_defaults(run=lambda parsed, arguments: _run(parser, parsed, arguments))
    add = parser.add_argument
    add("--scenarios", type=names(SCENARIOS), default=SCENARIOS, help=f"of {', '.join(SCENARIOS)}")
    add("--requests", type=count, default=200, help="of each scenario, at least")
    add("--concurrency", type=count, default=16, help="clients that wait for their answers")
    add("--max-tokens", type=count, default=400, help="new tokens per answer; half as many at least")
    add("--kills", type=names(KINDS), help=f"what is killed, of {', '.join(KINDS)} (default: all there are)")
    add("--failovers", type=count, default=9, help="verifiers killed while they have one stream")
    add("--seed", type=int, default=0, help="of requests and of the choice of victims")
    add_service(add)
    add("--json", type=Path, metavar="PATH", help="write rows there")


def add_service(add: Any) -> None:
    """The options of the service itself (ServiceOptions)."""
    add("--model", default=GENERATED, help="`generated`: small and random; or as in the service's settings")
    add("--dtype", choices=DTYPES, default="float32")
    add("--tensor-parallel-size", type=count, default=2, help="ranks of a verifier")
    add("--verifiers", type=count, default=2, help="one of them is spare; each has a Ray node of its own")
    add("--drafters", type=count, default=2)
    add("--set", type=setting, nargs="+", default=(), metavar="KEY=VALUE")


def _run(parser: argparse.ArgumentParser, parsed: argparse.Namespace, arguments: list[str]) -> None:
    lonely = parsed.tensor_parallel_size == 1
    if parsed.kills is None:
        parsed.kills = tuple(kind for kind in KINDS if not (lonely and kind == "rank"))
    if lonely and "rank" in parsed.kills:
        parser.error("--kills rank needs --tensor-parallel-size 2 or more: rank 0 is the only one")
    if parsed.verifiers == 1 and "failover" in parsed.scenarios:
        parser.error("--scenarios failover needs --verifiers 2 or more: nobody else could go on")
    check_output(parsed.json)
    from benchmarks.chaos.run import run  # torch: not for --help

    run(from_flags(ChaosOptions, parsed), arguments)
