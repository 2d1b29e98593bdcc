"""Whether two answers part where the model could not tell two tokens apart."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from serving.engine.adjust import Adjuster
from serving.spec.noise import gumbel, noise_key
from serving.types import GenerationRequest

TIE = 1e-3


def margin_between(
    folder: Path, request: GenerationRequest, output: tuple[int, ...], one: int, other: int
) -> float:
    """How far apart the target ranks two tokens after `output`, noise included."""
    context, params = request.prompt_ids + output, request.params
    with torch.inference_mode():
        scores = reference(folder)(torch.tensor([context])).logits[0, -1].numpy()
    if (adjuster := Adjuster.of(request)) is not None:
        adjuster.catch_up(context)
        scores = adjuster.adjusted(scores)
    if not params.greedy:
        key = noise_key(params.seed, request.choice_index, len(context))
        scores = scores / params.temperature + gumbel(np.arange(len(scores)), key)
    return abs(float(scores[one] - scores[other]))


@cache
def reference(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
