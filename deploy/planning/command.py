"""`plan`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deploy.errors import DeployError
from deploy.planning.machines import MACHINES, PRICES, Prices
from deploy.planning.plan import Load, Option, options
from deploy.planning.roofline import Speculation
from deploy.planning.shape import Shape, read_shape
from deploy.tables import table

# Of the README: prompt lookup and EAGLE-3 merged, SmolLM2-135M, six tasks, m = 5, on two CPU cores.
_MEASURED = Speculation(acceptance_length=2.10, draft_tokens=5, draft_share=0.2)
_CAVEAT = (
    "An estimate from data sheets: the service has not been measured on these GPUs. "
    "Measure one replica with `python -m benchmarks load` before buying."
)
_HEADER = (
    "machine",
    "GPU",
    "TP",
    "replicas",
    "machines",
    "$/month",
    "$/M tokens",
    "tokens/s",
    "batch",
    "TPOT",
    "TTFT",
    "drafts",
)


def add_command(commands: Any) -> None:
    plan = commands.add_parser("plan", help="which machines for a model and a load, and what they cost")
    plan.add_argument(
        "model", help="a folder, s3://bucket/prefix or a Hugging Face id; only config.json is read"
    )
    _add_load(plan)
    _add_speculation(plan)
    plan.add_argument(
        "--machine", action="append", choices=[m.name for m in MACHINES], help="only this; repeatable"
    )
    plan.add_argument(
        "--prices", type=Path, metavar="FILE", help=f"JSON instead of the list prices of {PRICES.as_of}"
    )
    plan.add_argument("--top", type=_whole, default=8, help="rows to show (%(default)s)")
    plan.add_argument("--json", action="store_true", help="all options, for programs")
    plan.set_defaults(run=_run)


def _add_load(plan: argparse.ArgumentParser) -> None:
    load = plan.add_argument_group("load")
    load.add_argument("--rate", type=_positive, required=True, help="requests per second at the peak")
    load.add_argument("--prompt-tokens", type=_whole, required=True, help="of a typical request")
    load.add_argument("--output-tokens", type=_whole, required=True, help="of a typical answer")
    load.add_argument("--tpot-ms", type=_positive, default=50.0, help="limit per output token (%(default)s)")
    load.add_argument(
        "--utilisation",
        type=_share,
        default=0.7,
        help="share of a replica's capacity to plan for (%(default)s)",
    )
    load.add_argument("--min-replicas", type=_whole, default=2, help="so that one may be lost (%(default)s)")
    load.add_argument("--max-sequences", type=_whole, default=128, help="engine.max_num_seqs (%(default)s)")


def _add_speculation(plan: argparse.ArgumentParser) -> None:
    drafting = plan.add_argument_group("speculation, by default as measured with the default model on a CPU")
    default = _MEASURED
    drafting.add_argument(
        "--acceptance-length",
        type=_at_least_one,
        default=default.acceptance_length,
        help="tokens per step, tau (%(default)s)",
    )
    drafting.add_argument(
        "--draft-tokens", type=_whole, default=default.draft_tokens, help="m of that tau (%(default)s)"
    )
    drafting.add_argument(
        "--draft-share",
        type=_share,
        default=default.draft_share,
        help="drafting time per verify time (%(default)s)",
    )


def _run(arguments: argparse.Namespace) -> None:
    from serving.config import ServeConfig  # after parsing: --help should not wait for it

    shape = read_shape(arguments.model, ServeConfig.load(None).cache_dir)
    load = _load(arguments, shape)
    speculation = Speculation(arguments.acceptance_length, arguments.draft_tokens, arguments.draft_share)
    prices = Prices.read(arguments.prices) if arguments.prices else PRICES
    machines = [
        machine for machine in MACHINES if arguments.machine is None or machine.name in arguments.machine
    ]
    found = options(shape, load, speculation, machines, prices)
    if not found:
        raise DeployError(
            "no machine carries this load: the model does not fit, or no batch keeps to --tpot-ms; "
            "raise that limit, shorten the lengths or allow more machines."
        )
    text = (
        _json(found, load, prices)
        if arguments.json
        else _text(found[: arguments.top], load, prices, arguments)
    )
    sys.stdout.write(text)


def _load(arguments: argparse.Namespace, shape: Shape) -> Load:
    length = arguments.prompt_tokens + arguments.output_tokens
    if length > shape.context:
        raise DeployError(
            f"--prompt-tokens and --output-tokens are {length} tokens, the model's context {shape.context}."
        )
    return Load(
        rate=arguments.rate,
        prompt=arguments.prompt_tokens,
        output=arguments.output_tokens,
        tpot_s=arguments.tpot_ms / 1e3,
        utilisation=arguments.utilisation,
        min_replicas=arguments.min_replicas,
        max_sequences=arguments.max_sequences,
    )


def _text(shown: Sequence[Option], load: Load, prices: Prices, arguments: argparse.Namespace) -> str:
    best = shown[0]
    head = (
        f"{arguments.model}: {load.rate:g} requests/s of {load.prompt} + {load.output} tokens, "
        f"tau {arguments.acceptance_length:g} at m = {arguments.draft_tokens}\n"
    )
    advice = (
        f"For the first: engine.tensor_parallel_size {best.ranks}, "
        f"engine.max_num_seqs {arguments.max_sequences}, {best.replicas} verifiers.\n"
    )
    dated = f"Prices: on demand, {prices.where}, {prices.as_of}; routers, drafters and traffic come on top.\n"
    rows = [_row(option, load) for option in shown]
    return f"{head}\n{table(_HEADER, rows)}\n{advice}{dated}{_CAVEAT}\n"


def _row(option: Option, load: Load) -> tuple[str, ...]:
    return (
        option.machine.name,
        f"{option.machine.gpus}x {option.machine.gpu.name}",
        str(option.ranks),
        str(option.replicas),
        str(option.machines),
        f"{option.cost:,.0f}",
        f"{option.cost_per_million(load):.2f}",
        f"{option.throughput:,.0f}",
        str(option.at_limit.sequences),
        f"{option.at_limit.tpot_s * 1e3:.0f} ms",
        f"{option.ttft_s * 1e3:.0f} ms",
        "yes" if option.at_limit.speculates else "no",
    )


def _json(found: Sequence[Option], load: Load, prices: Prices) -> str:
    entries = [
        {
            "machine": option.machine.name,
            "gpu": option.machine.gpu.name,
            "tensor_parallel_size": option.ranks,
            "replicas": option.replicas,
            "machines": option.machines,
            "usd_per_month": round(option.cost, 2),
            "usd_per_million_output_tokens": round(option.cost_per_million(load), 4),
            "tokens_per_second_at_limit": round(option.throughput, 1),
            "sequences_per_replica": option.at_limit.sequences,
            "tpot_ms": round(option.at_limit.tpot_s * 1e3, 2),
            "ttft_ms": round(option.ttft_s * 1e3, 2),
            "speculates": option.at_limit.speculates,
        }
        for option in found
    ]
    priced = {"as_of": prices.as_of, "region": prices.where}
    return json.dumps({"estimate": _CAVEAT, "prices": priced, "options": entries}, indent=2) + "\n"


def _number(accepts: Callable[[float], bool], wanted: str) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not accepts(value):
            raise argparse.ArgumentTypeError(f"{text!r} must be {wanted}")
        return value

    return parse


_positive = _number(lambda value: 0 < value < float("inf"), "a positive number")
_share = _number(lambda value: 0 < value <= 1, "above 0 and at most 1")
_at_least_one = _number(lambda value: 1 <= value < float("inf"), "at least 1")


def _whole(text: str) -> int:
    return int(_number(lambda value: value >= 1 and value.is_integer(), "a whole number from 1")(text))
