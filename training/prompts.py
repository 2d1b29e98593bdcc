"""Prompts from files: plain text, one a line; chat JSON lines with `messages`; or ShareGPT's JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from training.data import numbered_lines, report_broken
from training.errors import DataError

Messages = list[dict[str, str]]
# ShareGPT's names of the roles.
_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}


def read_prompts(paths: list[Path], *, skip_broken: bool = False) -> list[Messages]:
    """Each conversation's messages up to its last user turn; the assistant's words after it are left out.

    A `.json` file is a list of ShareGPT conversations, a `.jsonl` (or `.jsonl.gz`) has one object a line of
    either kind, anything else is one prompt per line. Raises DataError naming file and line (or entry).
    """
    prompts: list[Messages] = []
    broken: list[str] = []
    for path in paths:
        for where, make in _entries(path, broken):
            try:
                prompts.append(make())
            except ValueError as error:
                broken.append(f"{where}: {error}")
    report_broken(broken, skip_broken)
    return prompts


def _entries(path: Path, broken: list[str]) -> Iterator[tuple[str, Callable[[], Messages]]]:
    """Where each entry is, and how to read it (which raises ValueError)."""
    suffixes = path.name.removesuffix(".gz")
    if suffixes.endswith(".json"):
        for number, entry in enumerate(_json_list(path), start=1):
            yield f"{path}: entry {number}", partial(parse_conversation, entry)
    else:
        parse = _parse_line if suffixes.endswith(".jsonl") else _plain
        for where, text in numbered_lines(path, broken):
            yield where, partial(parse, text)


def parse_conversation(entry: Any) -> Messages:
    """`messages` with role and content, or ShareGPT's `conversations` with from and value."""
    if not isinstance(entry, dict):
        raise ValueError("not a JSON object")
    if "messages" in entry:
        turns, role, content = entry["messages"], "role", "content"
    elif "conversations" in entry:
        turns, role, content = entry["conversations"], "from", "value"
    else:
        raise ValueError("neither `messages` nor `conversations`")
    if not isinstance(turns, list):
        raise ValueError("the turns must be a list")
    messages = [_message(turn, role, content) for turn in turns]
    users = [index for index, message in enumerate(messages) if message["role"] == "user"]
    if not users:
        raise ValueError("no turn of a user")
    return messages[: users[-1] + 1]


def _message(turn: Any, role: str, content: str) -> dict[str, str]:
    if not isinstance(turn, dict) or not isinstance(turn.get(content), str):
        raise ValueError(f"a turn must have `{role}` and, as text, `{content}`")
    if turn.get(role) not in _ROLES:
        raise ValueError(f"unknown role {turn.get(role)!r}")
    return {"role": _ROLES[turn[role]], "content": turn[content]}


def _parse_line(text: str) -> Messages:
    try:
        entry = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at column {error.colno})") from None
    return parse_conversation(entry)


def _plain(text: str) -> Messages:
    return [{"role": "user", "content": text.strip()}]


def _json_list(path: Path) -> list[Any]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}.") from error
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}).") from error
    if not isinstance(entries, list):
        raise DataError(f"{path} must hold a list of conversations.")
    return entries
