"""Reading the JSON files of a model folder. A wrong field is named; JSON's null counts as absent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from serving.errors import ModelLoadError

Json = Mapping[str, Any]


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises ModelLoadError when it is missing, malformed or not an object."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ModelLoadError(f"{path} is missing.") from None
    except OSError as error:
        raise ModelLoadError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError
        raise ModelLoadError(f"{path} is not valid JSON: {error}.") from error
    if not isinstance(value, dict):
        raise ModelLoadError(f"{path} must hold a JSON object.")
    return value


def integer(values: Json, name: str, default: int | None = None, least: int = 1) -> int:
    """A whole number >= `least`; required when there is no default."""
    value = _present(values, name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ModelLoadError(f"the model's {name} must be a whole number of at least {least}, not {value!r}.")
    return value


def number(values: Json, name: str, default: float | None = None) -> float:
    """A number > 0; required when there is no default."""
    value = _present(values, name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ModelLoadError(f"the model's {name} must be a number above 0, not {value!r}.")
    return float(value)


def flag(values: Json, name: str, default: bool) -> bool:
    value = _present(values, name, default)
    if not isinstance(value, bool):
        raise ModelLoadError(f"the model's {name} must be true or false, not {value!r}.")
    return value


def _present(values: Json, name: str, default: object) -> object:
    value = values.get(name)
    if value is None:
        value = default
    if value is None:
        raise ModelLoadError(f"the model's configuration lacks {name}.")
    return value
