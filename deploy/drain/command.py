"""`drain` and `watch-interruptions`."""

from __future__ import annotations

import argparse
import signal
import sys
from typing import Any

from deploy.cluster.connection import add_flags, connect
from deploy.drain.node import Drain
from deploy.drain.queue import Queue
from deploy.drain.watch import Watch


def add_command(commands: Any) -> None:
    drain = commands.add_parser(
        "drain", help="move everything off a node: Ray's replicas first, then the pods"
    )
    add_flags(drain)
    drain.add_argument("node")
    drain.add_argument(
        "--deadline", type=float, default=600.0, help="seconds until it must be empty (%(default)g)"
    )
    drain.add_argument("--poll", type=float, default=5.0, help="seconds between looks (%(default)g)")
    drain.add_argument("--force", action="store_true", help="evict pods too that nothing would start again")
    drain.set_defaults(run=_drain)
    watch = commands.add_parser("watch-interruptions", help="drain nodes whose machines EC2 is about to take")
    add_flags(watch)
    watch.add_argument(
        "queue", help="name or URL of the SQS queue that EventBridge fills, for this command alone"
    )
    watch.add_argument("--ignore-rebalance", action="store_true", help="wait for the notice itself")
    watch.add_argument("--poll", type=float, default=2.0, help="seconds between tries to evict (%(default)g)")
    watch.add_argument("--once", action="store_true", help="end when the queue has nothing more")
    watch.set_defaults(run=_watch)


def _drain(options: argparse.Namespace) -> None:
    Drain(
        cluster=connect(options),
        why=f"python -m deploy drain {options.node}",
        deadline_s=options.deadline,
        poll_s=options.poll,
        force=options.force,
        say=lambda line: sys.stderr.write(f"{line}\n"),
    ).run(options.node, until_empty=True)
    sys.stdout.write(f"node {options.node} is empty; `kubectl uncordon {options.node}` takes it back\n")


def _watch(options: argparse.Namespace) -> None:
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # drains under way are finished first
    Watch(connect(options), Queue.open(options.queue), options.poll, not options.ignore_rebalance).run(
        options.once
    )
