"""How long it will take."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.ablation.options import CALIBRATION, TREE, Options
from benchmarks.ablation.plan import EAGLE1, Training

# Response tokens per second of training the default model's heads on two Zen 4 cores, nothing beside it.
REGRESSION, ONE_STEP, UNROLLED = 1500, 1400, 850
ANSWERED = 40  # tokens per second of an engine there that verifies many draft tokens
MEASURED_S = 40.0  # a head on held-out text


def training_s(training: Training) -> float:
    if training.method == EAGLE1:
        return training.tokens_met / REGRESSION
    return training.tokens_met / (UNROLLED if training.draft_steps > 1 else ONE_STEP)


def measuring_s(options: Options) -> float:
    """Of one head."""
    return MEASURED_S + _answers_s(options)


def estimate_s(options: Options, trainings: Sequence[Training]) -> float:
    """On two cores, for the default model."""
    engines = 4 * len(options.beam) * (TREE in options.part) + 2 * (CALIBRATION in options.part)
    heads = sum(training_s(training) + measuring_s(options) for training in trainings)
    return heads + engines * _answers_s(options)


def _answers_s(options: Options) -> float:
    return options.limit * len(options.tasks) * options.max_tokens / ANSWERED
