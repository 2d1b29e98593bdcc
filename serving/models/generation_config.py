"""How a model's makers recommend to sample from it: generation_config.json, where there is one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from serving.errors import ModelLoadError
from serving.models.hf_json import Json, read_json
from serving.types import SamplingDefaults


def read_sampling_defaults(folder: Path) -> SamplingDefaults:
    """Raises ModelLoadError naming a value that cannot be sampled with. `do_sample` is not looked at: a
    request that says nothing is sampled, as everywhere in OpenAI's API.
    """
    path = folder / "generation_config.json"
    values = read_json(path) if path.exists() else {}
    top_k = _number(values, "top_k", 0, lambda value: value >= -1 and value == int(value))
    return SamplingDefaults(
        temperature=_number(values, "temperature", 1.0, lambda value: value >= 0),
        top_p=_number(values, "top_p", 1.0, lambda value: 0 < value <= 1),
        top_k=max(int(top_k), 0),
        min_p=_number(values, "min_p", 0.0, lambda value: 0 <= value <= 1),
        repetition_penalty=_number(values, "repetition_penalty", 1.0, lambda value: value > 0),
    )


def _number(values: Json, name: str, default: float, allowed: Callable[[float], bool]) -> float:
    """JSON's null counts as absent; infinity and NaN are in no range."""
    value = values.get(name)
    if value is None:
        return default
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not abs(value) < float("inf") or not allowed(value):
        raise ModelLoadError(f"generation_config.json's {name} cannot be {value!r}.")
    return float(value)
