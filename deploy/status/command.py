"""`status`."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from deploy.cluster.connection import add_flags, connect
from deploy.cluster.rayservice import find_only
from deploy.errors import NotHealthyError
from deploy.status.report import Report, look
from deploy.tables import table


def add_command(commands: Any) -> None:
    status = commands.add_parser(
        "status", help="the RayService, its replicas, pods and nodes; exit status 3 if not ready"
    )
    add_flags(status)
    status.add_argument("name", nargs="?", help="of the RayService; may be left out where there is only one")
    status.add_argument("--json", action="store_true", help="for programs")
    status.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    cluster = connect(options)
    report = look(cluster, find_only(cluster, options.name))
    sys.stdout.write(_json(report) if options.json else _text(report))
    if not report.ready:
        raise NotHealthyError(f"RayService {report.name} is not ready: {report.verdict.why}.")


def _text(report: Report) -> str:
    parts = [
        table(
            ("RAYSERVICE", "STATE", "ENDPOINTS", "RAY CLUSTERS"),
            [(report.name, report.verdict.why, str(report.endpoints), ", ".join(report.clusters))],
        )
    ]
    if report.deployments:
        rows = [(d.application, d.name, d.status, d.message or "-") for d in report.deployments]
        parts.append(table(("APPLICATION", "DEPLOYMENT", "STATUS", "MESSAGE"), rows))
    if report.groups:
        groups = [(g.cluster, g.name, f"{g.ready}/{g.pods}") for g in report.groups]
        parts.append(table(("RAY CLUSTER", "GROUP", "READY"), groups))
    if report.nodes:
        nodes = [
            (
                n.name,
                n.machine or "-",
                n.capacity or "-",
                n.zone or "-",
                "yes" if n.cordoned else "no",
                str(n.pods),
            )
            for n in report.nodes
        ]
        parts.append(table(("NODE", "MACHINE", "CAPACITY", "ZONE", "CORDONED", "PODS"), nodes))
    return "\n".join([*parts, *(f"{trouble}\n" for trouble in report.troubles)])


def _json(report: Report) -> str:
    document = {
        "name": report.name,
        "ready": report.ready,
        "why": report.verdict.why,
        "endpoints": report.endpoints,
        "ray_clusters": report.clusters,
        "deployments": [deployment._asdict() for deployment in report.deployments],
        "groups": [group._asdict() for group in report.groups],
        "nodes": [node._asdict() for node in report.nodes],
        "troubles": report.troubles,
    }
    return json.dumps(document, indent=2) + "\n"
