"""An OpenAI chat request, read strictly: a field is honoured, or refused by its name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from chat_lambda.errors import RequestError, invalid

_ROLES = ("system", "developer", "user", "assistant")
_KNOWN = {
    "model", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "stream",
    "stream_options", "user", "n",
}  # fmt: skip
_MAX_STOPS = 4


class Turn(NamedTuple):
    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True)
class ChatRequest:
    """turns alternate and begin and end with the user. None: the model's own default."""

    model: str
    system: tuple[str, ...]
    turns: tuple[Turn, ...]
    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    stop: tuple[str, ...]
    stream: bool
    include_usage: bool

    @property
    def texts(self) -> tuple[str, ...]:
        return (*self.system, *(turn.text for turn in self.turns))

    @property
    def deterministic(self) -> bool:
        """Only who asks for temperature 0 expects the same answer again."""
        return self.temperature == 0

    @classmethod
    def parse(cls, body: bytes) -> ChatRequest:
        """Raises RequestError naming the field."""
        values = _object(body)
        system, turns = _conversation(values.get("messages"))
        _whole(values, "n", 1, 1)
        return cls(
            model=_model(values),
            system=system,
            turns=turns,
            max_tokens=_max_tokens(values),
            temperature=_number(values, "temperature", 0, 1),
            top_p=_number(values, "top_p", 0, 1),
            stop=_stops(values),
            stream=_flag(values, "stream") or False,
            include_usage=_include_usage(values),
        )


def _object(body: bytes) -> dict[str, Any]:
    try:
        values = json.loads(body)
    except ValueError as error:
        raise RequestError(f"the body is no JSON: {error}", code="invalid_json") from None
    if not isinstance(values, dict):
        raise RequestError("the body must be a JSON object", code="invalid_json")
    for name, value in values.items():
        if name not in _KNOWN and value is not None:
            raise RequestError(f"{name} is not supported here", name, code="unsupported_parameter")
    return values


def _model(values: dict[str, Any]) -> str:
    model = values.get("model")
    if not isinstance(model, str) or not model:
        raise invalid("model must be the name of the model", "model")
    return model


def _conversation(messages: Any) -> tuple[tuple[str, ...], tuple[Turn, ...]]:
    """System texts, and turns as Bedrock wants them: messages of one role in a row are one turn."""
    if not isinstance(messages, list) or not messages:
        raise invalid("messages must be a list with at least one message", "messages")
    system: list[str] = []
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        role, text = _message(message, f"messages[{index}]")
        if role in ("system", "developer"):
            system.append(text)
        elif turns and turns[-1].role == role:
            turns[-1] = turns[-1]._replace(text=f"{turns[-1].text}\n{text}")
        else:
            turns.append(Turn("user" if role == "user" else "assistant", text))
    if not turns or turns[0].role != "user" or turns[-1].role != "user":
        raise invalid("a conversation begins and ends with a message of the user", "messages")
    return tuple(system), tuple(turns)


def _message(message: Any, where: str) -> tuple[str, str]:
    if not isinstance(message, dict):
        raise invalid(f"{where} must be an object", where)
    for name, value in message.items():
        if name not in ("role", "content") and value is not None:
            raise RequestError(
                f"{where}.{name} is not supported here", f"{where}.{name}", code="unsupported_parameter"
            )
    role = message.get("role")
    if role not in _ROLES:
        raise invalid(f"{where}.role must be one of {', '.join(_ROLES)}", f"{where}.role")
    return role, _content(message.get("content"), f"{where}.content")


def _content(content: Any, where: str) -> str:
    if isinstance(content, list):
        if not all(isinstance(part, dict) and part.get("type") == "text" for part in content):
            raise invalid(f"{where} may have text parts only", where)
        texts = [part.get("text") for part in content]
        content = "\n".join(texts) if all(isinstance(text, str) for text in texts) else None
    if not isinstance(content, str) or not content.strip():
        raise invalid(f"{where} must be a text that is not empty, or a list of text parts", where)
    return content


def _whole(values: dict[str, Any], name: str, low: int, high: int) -> int | None:
    value = values.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise invalid(f"{name} must be a whole number from {low} to {high}", name)
    return value


def _max_tokens(values: dict[str, Any]) -> int | None:
    """`max_completion_tokens` is the newer name; given both, they must agree."""
    found = {_whole(values, name, 1, 2**20) for name in ("max_tokens", "max_completion_tokens")} - {None}
    if len(found) > 1:
        raise invalid("max_tokens and max_completion_tokens differ", "max_completion_tokens")
    return next(iter(found), None)


def _number(values: dict[str, Any], name: str, low: float, high: float) -> float | None:
    value = values.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise invalid(f"{name} must be a number from {low} to {high}, as Bedrock's models take it", name)
    return float(value)


def _flag(values: dict[str, Any], name: str, where: str = "") -> bool | None:
    value = values.get(name)
    if value is not None and not isinstance(value, bool):
        raise invalid(f"{where}{name} must be true or false", f"{where}{name}")
    return value


def _stops(values: dict[str, Any]) -> tuple[str, ...]:
    stop = values.get("stop")
    stops = [] if stop is None else [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not all(isinstance(text, str) and text for text in stops):
        raise invalid("stop must be a text or a list of texts", "stop")
    if len(stops) > _MAX_STOPS:
        raise invalid(f"stop may have {_MAX_STOPS} texts", "stop")
    return tuple(stops)


def _include_usage(values: dict[str, Any]) -> bool:
    options = values.get("stream_options")
    if options is None:
        return False
    if not isinstance(options, dict) or not set(options) <= {"include_usage"}:
        raise invalid("stream_options may have include_usage only", "stream_options")
    return _flag(options, "include_usage", "stream_options.") or False
