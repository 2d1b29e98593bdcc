"""Reading configuration values: text from the command line and environment, and errors that help."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import time
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError

from serving.errors import ConfigError

PREFIX = "CANOPY_"
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_CLOCK = re.compile(r"\d\d:\d\d(:\d\d)?")
# Read elsewhere, or put there by Kubernetes for a Service that is named like us.
_NOT_SETTINGS = re.compile(r"CANOPY_(DEFAULT_MODEL_WHEEL|SERVICE_(HOST|PORT.*)|PORT(_\d+_.*)?)")


def parse_bytes(value: int | str) -> int:
    """Bytes of `512MiB`, `2GB`, `1048576`. Raises ValueError otherwise."""
    if isinstance(value, int):
        return value
    text = value.strip().lower().removesuffix("b")
    number = text.rstrip("kmgi")
    try:
        return int(float(number) * _UNITS[text[len(number) :].strip()])
    except (ValueError, KeyError):
        raise ValueError(f"{value!r} is not a size; write it like 512MiB or 2GB") from None


def parse_number(value: Any) -> Any:
    """A whole number written as text, where the type alone would not accept it."""
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else value


def parse_clock(value: Any) -> Any:
    """A time of day, as text unless it is one already. YAML reads 07:00 without quotes as the number 420."""
    if isinstance(value, time) or (isinstance(value, str) and _CLOCK.fullmatch(value)):
        return value
    raise ValueError(f"{value!r} is no time of day; write it in quotes, like '07:00'")


def parse_list(value: Any) -> Any:
    """A list written as text: JSON, or items separated by commas."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    return json.loads(text) if text.startswith("[") else [part.strip() for part in text.split(",")]


def put(tree: dict[str, Any], path: list[str], value: Any) -> None:
    """tree[a][b]... = value; a mapping is merged, its keys may be dotted."""
    *parents, leaf = path
    for name in parents:
        tree = tree.setdefault(name, {})
    if isinstance(value, dict):
        for name, inner in value.items():
            put(tree.setdefault(leaf, {}), name.split("."), inner)
    else:
        tree[leaf] = value


def settings_of(model: type[BaseModel]) -> Iterator[list[str]]:
    """The path of every setting, sections entered."""
    for name, info in model.model_fields.items():
        section = info.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            yield from ([name, *inner] for inner in settings_of(section))
        else:
            yield [name]


def from_environment(model: type[BaseModel], environ: Mapping[str, str]) -> dict[str, Any]:
    """Settings named CANOPY_<SECTION>_<FIELD>. Raises ConfigError for a name that is none."""
    known = {PREFIX + "_".join(path).upper(): path for path in settings_of(model)}
    values: dict[str, Any] = {}
    for name, text in environ.items():
        if name in known:
            put(values, known[name], text)
        elif name.startswith(PREFIX) and not _NOT_SETTINGS.fullmatch(name):
            raise ConfigError(f"the environment variable {name} is not a setting{_hint(name, list(known))}")
    return values


def explained(error: ValidationError, model: type[BaseModel]) -> ConfigError:
    """All that is wrong, in one line that names each setting."""
    known = [".".join(path) for path in settings_of(model)]
    problems = []
    for problem in error.errors():
        name = ".".join(map(str, problem["loc"]))
        if problem["type"] == "extra_forbidden":
            problems.append(f"{name} is not a setting{_hint(name, known)}")
        else:
            message = problem["msg"].removeprefix("Value error, ")
            problems.append(f"{name}: {message[0].lower()}{message[1:]}" if name else message)
    return ConfigError(f"bad configuration: {'; '.join(problems)}")


def _hint(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
