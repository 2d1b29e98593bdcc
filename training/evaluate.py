"""`evaluate`: acceptance by draft step and calibration of heads on text they have not seen."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from training.acceptance import Judge
from training.calibration import CalibrationBin, calibration_curve, calibration_error
from training.capture import Source
from training.errors import TrainingError
from training.export import TrainedHead
from training.figures import draw_acceptance, draw_calibration
from training.material import Material, load_material, open_source
from training.objective import Borrowed
from training.options import add_data, add_layers, add_split, add_target, positive, serve_config, torch_device
from training.target import TargetFolder

POSITIONS = 16384


def add_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--head", type=Path, nargs="+", required=True, metavar="FOLDER", help="exported heads to compare")
    add("--out", type=Path, required=True, help="folder for evaluation.json and the figures")
    add("--features", type=Path, help="what `capture` wrote; without: on the fly from --data")
    add("--all", action="store_true", help="on all of the text, not on the held-out share alone")
    add("--steps", type=positive, default=6, help="draft steps")
    add("--dtype", choices=["bfloat16", "float32"], default="bfloat16", help="of the head")
    add_target(parser)
    add_data(parser, required=False)
    add_layers(parser)
    add_split(parser)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """acceptance[n] is n-alpha. positions: greedy response tokens judged at step 0."""

    acceptance: list[float]
    positions: int
    calibration: list[CalibrationBin]
    calibration_error: float

    @property
    def fall(self) -> float:
        """Relative loss from 0-alpha to 3-alpha (or the last step before it)."""
        first, third = self.acceptance[0], self.acceptance[: 3 + 1][-1]
        return (first - third) / first if first else 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"fall": self.fall}


def run(options: Namespace) -> None:
    torch.set_num_threads(options.threads)
    target = TargetFolder.open(serve_config(options))
    material = load_material(options, target)
    source = open_source(options, target, material)
    results = {
        name: evaluate_head(folder, options, target, material, source)
        for name, folder in _names(options.head).items()
    }
    options.out.mkdir(parents=True, exist_ok=True)
    report = {name: result.to_json() for name, result in results.items()}
    (options.out / "evaluation.json").write_text(json.dumps(report, indent=1) + "\n")
    draw_acceptance({name: r.acceptance for name, r in results.items()}, options.out / "acceptance.png")
    draw_calibration({name: r.calibration for name, r in results.items()}, options.out / "calibration.png")
    for name, result in results.items():
        _show(name, result)


def evaluate_head(
    folder: Path, options: Namespace, target: TargetFolder, material: Material, source: Source
) -> Evaluation:
    """Raises TrainingError when the head wants other features, or there is no greedy text."""
    trained = TrainedHead.load(folder, target.final_norm(), POSITIONS)
    device = torch_device(options)
    _check_layers(folder, trained, target, material)
    trained.head.to(device)
    borrowed = Borrowed.load(target, trained.vocabulary, getattr(torch, options.dtype), device)
    text = material.text.train + material.text.held_out if options.all else material.text.held_out
    judge = Judge.of(trained.head, borrowed, trained.vocabulary)
    acceptance = judge.measure(text, source, options.steps)
    if not len(acceptance.confidence):
        raise TrainingError("there is no greedy answer to judge: hold more text out, or give --all.")
    curve = calibration_curve(acceptance)
    return Evaluation(acceptance.rates, len(acceptance.confidence), curve, calibration_error(curve))


def _check_layers(folder: Path, trained: TrainedHead, target: TargetFolder, material: Material) -> None:
    config, a = trained.head.config, target.architecture
    if (config.hidden_size, config.vocab_size) != (a.hidden_size, a.vocab_size):
        raise TrainingError(f"{folder} is a head for another model than {target.folder}.")
    if config.layers not in ((), (a.num_layers,), material.layers):
        raise TrainingError(
            f"{folder} reads the inputs of layers {list(config.layers)}, but the features are those of "
            f"{list(material.layers)}: give --layers."
        )


def _names(folders: list[Path]) -> dict[str, Path]:
    """By the folder's own name where that tells them apart (a run's is called `head`)."""
    names = [f.resolve().parent.name if f.resolve().name == "head" else f.resolve().name for f in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    return dict(zip(names, folders, strict=True))


def _show(name: str, result: Evaluation) -> None:
    rates = " ".join(f"{rate:.3f}" for rate in result.acceptance)
    print(
        f"{name}: n-alpha {rates} (falls by {result.fall:.0%}) over {result.positions} tokens; "
        f"calibration error {result.calibration_error:.3f}"
    )
