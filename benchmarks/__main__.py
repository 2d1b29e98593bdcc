"""`python -m benchmarks COMMAND`: every figure in the README comes from here."""

from __future__ import annotations

import argparse
import sys

from benchmarks.ablation.command import add_command as add_ablation
from benchmarks.calibration_command import add_command as add_calibration
from benchmarks.chaos.command import add_command as add_chaos
from benchmarks.chaos.soak.command import add_command as add_soak
from benchmarks.coupling.command import add_command as add_coupling
from benchmarks.deterministic_command import add_command as add_deterministic
from benchmarks.errors import BenchmarkError
from benchmarks.evaluate.command import add_command as add_evaluate
from benchmarks.evidence.command import add_command as add_evidence
from benchmarks.kernels_command import add_command as add_kernels
from benchmarks.load.command import add_command as add_load
from benchmarks.peers.command import add_command as add_peers
from benchmarks.pool_command import add_command as add_pool
from benchmarks.prefix_command import add_command as add_prefix
from benchmarks.sampler_command import add_command as add_sampler
from benchmarks.speed.command import add_command as add_speed
from benchmarks.tensor_parallel_command import add_command as add_tensor_parallel
from serving.errors import CanopyError


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    add_speed(commands)
    add_evaluate(commands)
    add_ablation(commands)
    add_evidence(commands)
    add_load(commands)
    add_peers(commands)
    add_kernels(commands)
    add_coupling(commands)
    add_calibration(commands)
    add_prefix(commands)
    add_sampler(commands)
    add_deterministic(commands)
    add_tensor_parallel(commands)
    add_pool(commands)
    add_chaos(commands)
    add_soak(commands)
    parsed = parser.parse_args(arguments)
    try:
        parsed.run(parsed, arguments)
    except (BenchmarkError, CanopyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
