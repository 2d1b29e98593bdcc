"""A target's chat format: whole prompts, and user turns that the target itself goes on with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from serving.models.card import read_tokenizer
from serving.router.chat_template import ChatTemplate
from training.errors import TrainingError

Message = Mapping[str, str]
_MARK = "\N{OBJECT REPLACEMENT CHARACTER}"  # stands where the user's words go


class Chat:
    """Raises TrainingError for a model without a chat template."""

    def __init__(self, folder: Path) -> None:
        files = read_tokenizer(folder)
        if files.chat_template is None:
            raise TrainingError(f"{folder} has no chat template: text for a base model must be supplied.")
        self._tokenizer = Tokenizer.from_buffer(files.tokenizer_json)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._template = ChatTemplate(
            files.chat_template, bos_token=files.bos_token, eos_token=files.eos_token
        )

    def prompt(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Up to where the assistant answers. Raises RequestError when the template refuses the messages."""
        return self._encode(self._template.render(messages))

    def open_user_turn(self, start: str) -> tuple[int, ...]:
        """Up to where the user's first turn goes on after `start` (possibly empty)."""
        before = self._template.render([{"role": "user", "content": _MARK}]).partition(_MARK)[0]
        return self._encode(before + start)

    def text(self, token_ids: Sequence[int]) -> str:
        return self._tokenizer.decode(token_ids, skip_special_tokens=True)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)
