"""Parameters we know but do not honour: do-nothing values pass, every other is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from serving.api.requests import ChatCompletionRequest, ChatMessage, TextCompletionRequest, TokenizeRequest
from serving.errors import UnsupportedParameterError

NoOps = dict[str, tuple[Any, ...]]

# A null does nothing for any of them.
_SHARED: NoOps = {
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
}

_CHAT: NoOps = _SHARED | {
    "echo": (False,),
    "response_format": ({"type": "text"},),
    "tools": ([],),
    "tool_choice": ("none",),
    "parallel_tool_calls": (True, False),  # there are no tools to call
    "functions": ([],),
    "function_call": ("none",),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": (),
    "verbosity": (),
    "web_search_options": (),
    "store": (False,),
    "metadata": ({},),
    "service_tier": ("auto", "default"),
    "safety_identifier": (),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "chat_template": (),
    "chat_template_kwargs": ({},),
}

_TEXT: NoOps = _SHARED | {"suffix": ("",)}

_TOKENIZE: NoOps = {
    "continue_final_message": (False,),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "tools": ([],),
}

# What clients send back of an assistant's message.
_MESSAGE: NoOps = {
    "tool_calls": ([],),
    "function_call": (),
    "refusal": (),
    "audio": (),
    "annotations": ([],),
    "reasoning": (),
    "reasoning_content": (),
}


def refuse_unsupported(body: ChatCompletionRequest | TextCompletionRequest | TokenizeRequest) -> None:
    """Raises UnsupportedParameterError naming the first parameter that is not honoured."""
    if isinstance(body, TextCompletionRequest):
        _refuse(body.model_extra, _TEXT, "")
        return
    _refuse(body.model_extra, _CHAT if isinstance(body, ChatCompletionRequest) else _TOKENIZE, "")
    for i, message in enumerate(body.messages or ()):
        _refuse_in_message(message, i)


def _refuse_in_message(message: ChatMessage, position: int) -> None:
    _refuse(message.model_extra, _MESSAGE, f"messages.{position}.")


def _refuse(extra: Mapping[str, Any] | None, no_ops: NoOps, prefix: str) -> None:
    for name, value in (extra or {}).items():
        if name not in no_ops:
            raise UnsupportedParameterError(f"{prefix}{name} is not a parameter of this API", prefix + name)
        if value is not None and not any(_same(value, no_op) for no_op in no_ops[name]):
            raise UnsupportedParameterError(f"{prefix}{name} is not supported yet", prefix + name)


def _same(value: Any, no_op: Any) -> bool:
    """Equal as JSON: true is not 1."""
    return isinstance(value, bool) == isinstance(no_op, bool) and bool(value == no_op)
