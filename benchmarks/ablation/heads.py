"""What a trained head is worth: acceptance on text that was held out, tau on the questions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.ablation.asking import Questions, answer
from benchmarks.ablation.options import Options
from benchmarks.ablation.plan import Training
from benchmarks.ablation.trainings import evaluation_options
from benchmarks.in_process import InProcess
from benchmarks.report import ALL_TASKS, Row
from benchmarks.stats import pooled
from serving.config import ServeConfig
from training.evaluate import Evaluation, evaluate_head
from training.material import load_material, open_source
from training.options import serve_config
from training.target import TargetFolder

SECTION = "ablation heads"


def measure(training: Training, head: Path, questions: Questions, options: Options) -> Row:
    """acceptance[n]: n-alpha, of chains after every token of held-out greedy answers."""
    evaluation = _evaluate(head, options)
    taus = answer(InProcess(_config(training, head, options), options.max_tokens), questions, options, "tau")
    tau = pooled(taus.parts)
    special: dict[str, Any] = {
        "tokens": training.tokens,
        "epochs": training.epochs,
        "acceptance": evaluation.acceptance,
        "positions": evaluation.positions,
        "fall": evaluation.fall,
        "calibration_error": evaluation.calibration_error,
        "tau_interval": list(tau[1:]),
        **taus.as_json(),
    }
    return Row(SECTION, ALL_TASKS, training.name, 1, tau=tau.value, special=special)


def _evaluate(head: Path, options: Options) -> Evaluation:
    flags = evaluation_options(head, options)
    target = TargetFolder.open(serve_config(flags))
    whole = load_material(flags, target)
    greedy = [text for text in whole.text.held_out if text.temperature == 0]
    text = whole.text._replace(held_out=greedy[: options.held_out_conversations])
    return evaluate_head(head, flags, target, replace(whole, text=text), open_source(flags, target, whole))


def _config(training: Training, head: Path, options: Options) -> ServeConfig:
    return ServeConfig.load(
        {
            "speculation.num_speculative_tokens": options.num_speculative_tokens,
            **options.settings,
            "speculation.method": training.speculation,
            "speculation.head": str(head),
        }
    )
