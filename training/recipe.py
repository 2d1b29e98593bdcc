"""All settings of a training run, as `run.json` records them."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from training.errors import TrainingError
from training.head_config import Kind
from training.optim import OptimSettings
from training.options import positive, rate, share
from training.trainer import LoopSettings

NAME = "run.json"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the weights depend on.

    Threads, device and logging may change on resuming (another number of threads rounds differently).
    """

    method: str
    fusion: bool
    dtype: str
    draft_vocab_size: int
    draft_steps: int
    deep_share: float
    step_decay: float
    epochs: int
    batch_tokens: int
    micro_tokens: int
    lr: float
    muon_lr: float
    weight_decay: float
    warmup: float
    clip: float
    workers: int
    seed: int
    held_out: float
    split_seed: int
    max_length: int
    init: str
    data: str  # digest of the training text

    @property
    def kind(self) -> Kind:
        return "eagle3" if self.method == "eagle3" else "eagle1"

    @property
    def compute_dtype(self) -> torch.dtype:
        dtype = getattr(torch, self.dtype)
        assert isinstance(dtype, torch.dtype)
        return dtype

    def loop(self, device: torch.device) -> LoopSettings:
        return LoopSettings(
            self.micro_tokens,
            self.draft_steps,
            self.deep_share,
            self.step_decay,
            self.seed,
            device,
        )

    def optim(self) -> OptimSettings:
        return OptimSettings(self.lr, self.muon_lr, self.weight_decay, self.warmup, self.clip)

    def save(self, folder: Path) -> None:
        (folder / NAME).write_text(json.dumps(asdict(self), indent=1) + "\n")

    def check_same(self, folder: Path) -> None:
        """Raises TrainingError naming what differs from the run in `folder`."""
        try:
            earlier: dict[str, Any] = json.loads((folder / NAME).read_text())
        except (OSError, ValueError) as error:
            raise TrainingError(f"{folder / NAME} cannot be read ({error}).") from error
        now = asdict(self)
        different = [name for name in now if earlier.get(name) != now[name]]
        if different:
            listed = ", ".join(f"{name} was {earlier.get(name)!r}, not {now[name]!r}" for name in different)
            raise TrainingError(f"this is not the run to resume in {folder}: {listed}.")


def add_recipe(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--method", choices=["eagle3", "eagle1", "hass"], default="eagle3")
    add("--no-fusion", dest="fusion", action="store_false", help="EAGLE-3 on the last layer's feature alone")
    add("--ttt-steps", type=positive, help="steps of training-time test (eagle3: 4, hass: 3, eagle1: 1)")
    add(
        "--deep-share",
        type=share,
        default=1.0,
        help="share of conversations, drawn anew in every step, that are drafted beyond the first draft step",
    )
    add("--step-decay", type=rate, default=0.8, help="weight of step i is this to the power i")
    add("--dtype", choices=["bfloat16", "float32"], default="bfloat16", help="of matrix products")
    add("--draft-vocab-size", type=positive, default=6144)
    add("--epochs", type=positive, default=1)
    add("--batch-tokens", type=positive, default=1536, help="tokens of one optimizer step and worker")
    add("--workers", type=positive, default=1, help="processes of Ray Train, each with --threads")
    add("--micro-tokens", type=positive, default=4096, help="tokens of one forward: bounds the memory")
    add("--lr", type=rate, default=6e-4, help="AdamW's")
    add("--muon-lr", type=rate, default=0.02, help="Muon's, for matrices; 0: AdamW for everything")
    add("--weight-decay", type=rate, default=0.0)
    add("--warmup", type=share, default=0.03, help="share of all steps")
    add("--clip", type=rate, default=0.5, help="largest gradient norm")
    add("--seed", type=int, default=0)
    add("--init", type=Path, metavar="HEAD", help="start from this head and its vocabulary")


def recipe_from(options: Namespace, data: str) -> Recipe:
    """data: the training text's digest."""
    given = vars(options) | {
        "draft_steps": _draft_steps(options),
        "init": str(options.init or ""),
        "data": data,
    }
    return Recipe(**{field.name: given[field.name] for field in fields(Recipe)})


def _draft_steps(options: Namespace) -> int:
    steps = options.ttt_steps or {"eagle3": 4, "hass": 3, "eagle1": 1}[options.method]
    if options.method == "eagle1" and steps != 1:
        raise TrainingError("eagle1 is trained without training-time test; hass is what adds it.")
    if options.method != "eagle3" and not options.fusion:
        raise TrainingError("--no-fusion is an ablation of eagle3; the other methods fuse nothing.")
    return int(steps)
