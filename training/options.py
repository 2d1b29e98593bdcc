"""Command-line options that several commands share."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser, Namespace
from pathlib import Path

import torch

from serving.config import ServeConfig
from training.errors import TrainingError


def add_target(parser: ArgumentParser) -> None:
    parser.add_argument("--model", default="default", help="the target, named as in `serving`")
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads(), help="CPU threads")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    # Never `auto`: it goes by timing, and features of two precisions must not mix.
    parser.add_argument("--target-dtype", choices=["bfloat16", "float32"], default="bfloat16")


def add_data(parser: ArgumentParser, required: bool) -> None:
    parser.add_argument(
        "--data", type=Path, nargs="+", required=required, metavar="FILE", help="JSONL or JSONL.gz"
    )
    parser.add_argument("--skip-broken", action="store_true", help="leave broken lines out")
    parser.add_argument("--max-length", type=positive, default=2048, help="longer conversations are cut")


def add_split(parser: ArgumentParser) -> None:
    parser.add_argument("--held-out", type=share, default=0.05, help="share of the text kept for evaluation")
    parser.add_argument("--split-seed", type=int, default=0)


def add_layers(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--layers",
        type=feature_layer,
        nargs=3,
        metavar="N",
        help="target layers whose inputs are fused (default: 2, L/2, L-3)",
    )


def serve_config(options: Namespace, **engine: object) -> ServeConfig:
    values = {"num_threads": options.threads, "device": options.device, **engine}
    return ServeConfig.load({"model": options.model, "dtype": options.target_dtype, "engine": values})


def torch_device(options: Namespace) -> torch.device:
    if options.device == "cuda" and not torch.cuda.is_available():
        raise TrainingError("--device is cuda, but torch sees no CUDA device.")
    return torch.device(options.device)


def feature_layer(text: str) -> int:
    value = int(text)
    if value < 2:
        raise argparse.ArgumentTypeError(
            f"{text}: heads are fed from layer 2 on"
        )  # 1 would read as an output
    return value


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not in [0, 1]")
    return value


def rate(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a rate")
    return value
