"""`rollout`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from deploy.cluster.connection import Cluster, add_flags, connect
from deploy.errors import DeployError
from deploy.rollout.manifests import Manifests, read, render
from deploy.rollout.readiness import Patience
from deploy.rollout.rollout import RollOut
from deploy.rollout.smoke import Smoke

API_KEY = "ROLLOUT_API_KEY"


def add_command(commands: Any) -> None:
    rollout = commands.add_parser(
        "rollout", help="apply a release, wait, test it, go back if it does not serve"
    )
    add_flags(rollout)
    _add_source(rollout)
    rollout.add_argument(
        "--timeout", type=float, default=1800.0, help="seconds until it must be ready (%(default)g)"
    )
    rollout.add_argument("--poll", type=float, default=5.0, help="seconds between looks (%(default)g)")
    rollout.add_argument(
        "--force-conflicts", action="store_true", help="take over fields that other tools have set"
    )
    rollout.add_argument("--no-rollback", action="store_true", help="leave a version that fails")
    smoke = rollout.add_argument_group("smoke test", f"The API key comes from {API_KEY}.")
    smoke.add_argument("--url", type=_url, help="where clients ask; else through the Kubernetes API")
    smoke.add_argument("--no-smoke", action="store_true", help="be content with what KubeRay says")
    rollout.set_defaults(run=_run)


def _add_source(rollout: argparse.ArgumentParser) -> None:
    source = rollout.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "manifests", nargs="?", metavar="FILE", help="what helm template wrote; - for standard input"
    )
    source.add_argument("--chart", type=Path, help="a chart to render with Helm instead")
    rollout.add_argument("--release", default="canopy", help="with --chart: its name (%(default)s)")
    rollout.add_argument(
        "-f", "--values", type=Path, action="append", default=[], help="with --chart; repeatable"
    )
    rollout.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="with --chart; repeatable"
    )


def _run(options: argparse.Namespace) -> None:
    if options.chart is None and (options.values or options.set):
        raise DeployError("--values and --set belong to --chart; a rendered file is applied as it is.")
    cluster = connect(options)
    manifests = Manifests.parse(_text(options, cluster), str(options.chart or options.manifests))
    smoke = None if options.no_smoke else Smoke(options.url, os.environ.get(API_KEY, ""))
    patience = Patience(options.timeout, options.poll, lambda line: sys.stderr.write(f"{line}\n"))
    RollOut(cluster, patience, smoke, options.force_conflicts, not options.no_rollback).run(manifests)
    sys.stdout.write(f"RayService {manifests.name} is rolled out\n")


def _text(options: argparse.Namespace, cluster: Cluster) -> str:
    if options.chart is None:
        return read(options.manifests)
    return render(options.chart, options.release, cluster.namespace, options.values, options.set)


def _url(text: str) -> str:
    if urlsplit(text).scheme not in ("http", "https") or not urlsplit(text).netloc:
        raise argparse.ArgumentTypeError(f"{text!r} must begin with http:// or https://")
    return text
