"""`export`: a run's checkpoint, finished or not, as a head that drafters load."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

import torch

from training.checkpoint import Checkpoint
from training.export import TrainedHead, build_head
from training.head_config import HeadConfig
from training.vocabulary import DraftVocabulary


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--run", type=Path, required=True, dest="folder", help="what `train` wrote to --out")
    parser.add_argument("--out", type=Path, required=True, help="the head's folder")


def run(options: Namespace) -> None:
    checkpoint = Checkpoint.load(options.folder)
    trained_head(checkpoint).save(options.out)
    print(f"the head after step {checkpoint.step} is in {options.out}")


def trained_head(checkpoint: Checkpoint) -> TrainedHead:
    config = HeadConfig.from_json(checkpoint.config)
    # The target's norm is no part of a checkpoint, and nothing is computed here.
    head = build_head(config, torch.ones(config.hidden_size), max_positions=1)
    head.load_state_dict(checkpoint.head)
    return TrainedHead(head, DraftVocabulary(checkpoint.vocabulary, config.vocab_size))
