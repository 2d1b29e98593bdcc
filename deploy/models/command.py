"""`models push` and `models pull`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from deploy import aws
from deploy.models.multipart import MIN_PART_BYTES
from deploy.models.place import Place
from deploy.models.pull import Pull

_MIB = 2**20
_CONNECTIONS = 32


def add_command(commands: Any) -> None:
    parser = commands.add_parser("models", help="models between a folder and S3")
    directions = parser.add_subparsers(metavar="push|pull", required=True)
    _add_push(directions)
    _add_pull(directions)


def _add_push(directions: Any) -> None:
    push = directions.add_parser("push", help="a folder or a model of the hub to a private S3 prefix")
    push.add_argument(
        "source", help="a folder, a Hugging Face id, a .gguf file, `default`, or s3://bucket/prefix"
    )
    push.add_argument(
        "target", metavar="s3://bucket/prefix", help="where it goes, a prefix for this model alone"
    )
    push.add_argument("--head", action="store_true", help="the source is a draft head, not a model")
    push.add_argument(
        "--kms-key", default="", help="id, alias or ARN of a KMS key; else the bucket's own encryption"
    )
    push.add_argument("--prune", action="store_true", help="remove other files of a model from the prefix")
    push.add_argument("--part-mib", type=_part, default=16 * _MIB, metavar="MIB", help="size of a part (16)")
    push.set_defaults(run=_push)


def _add_pull(directions: Any) -> None:
    pull = directions.add_parser("pull", help="a pushed model into a folder, verified; for init containers")
    pull.add_argument("source", metavar="s3://bucket/prefix", help="where `models push` put it")
    pull.add_argument(
        "folder", type=Path, help="appears when the model is whole; below a mount, not the mount itself"
    )
    pull.set_defaults(run=_pull)


def _part(text: str) -> int:
    size = int(text) * _MIB
    if size < MIN_PART_BYTES:
        raise argparse.ArgumentTypeError(f"S3 takes parts from {MIN_PART_BYTES // _MIB} MiB")
    return size


def _push(options: argparse.Namespace) -> None:
    # Resolving reads weights' headers with torch, which a pull in an init container should not wait for.
    from deploy.models.push import Push
    from serving.config import ServeConfig
    from serving.models.folder import HEAD_FILES, MODEL_FILES
    from serving.models.sources import resolve, resolve_head

    place = Place.parse(options.target)
    locate, patterns = (resolve_head, HEAD_FILES) if options.head else (resolve, MODEL_FILES)
    folder = locate(options.source, ServeConfig.load(None).cache_dir)
    with aws.explained(str(place)):
        pushed = Push(
            client=aws.client("s3", _CONNECTIONS),
            source=options.source,
            folder=folder,
            patterns=patterns,
            place=place,
            kms_key=options.kms_key,
            part_bytes=options.part_mib,
            prune=options.prune,
        ).run()
    sys.stdout.write(f"{place}: {len(pushed.sent)} files sent, {len(pushed.kept)} were there\n")


def _pull(options: argparse.Namespace) -> None:
    place = Place.parse(options.source)
    with aws.explained(str(place)):
        pulled = Pull(aws.client("s3", _CONNECTIONS), place, options.folder).run()
    sys.stdout.write(f"{options.folder}: {pulled}\n")
