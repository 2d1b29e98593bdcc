"""The served model as the router sees it: limits, tokenizer and chat template."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from serving.errors import RequestError
from serving.router.chat_template import ChatTemplate
from serving.router.detokenizer import Detokenizer, DetokenizerFactory
from serving.router.token_bytes import TokenBytes
from serving.router.tokenizer import Tokenizer
from serving.types import ModelCard

PromptIds = tuple[int, ...]


class ServedModel:
    """Built from a verifier's card. Raises ModelLoadError when tokenizer or template are unusable."""

    def __init__(self, card: ModelCard) -> None:
        self.card, self.tokenizer = card, card.tokenizer
        self._tokenizer = Tokenizer(card.tokenizer_json)
        self._detokenizers = DetokenizerFactory(self._tokenizer)
        self._token_bytes = TokenBytes(self._tokenizer)
        self._template = None
        if card.chat_template is not None:
            self._template = ChatTemplate(
                card.chat_template, bos_token=card.bos_token, eos_token=card.eos_token
            )

    def detokenizer(self) -> Detokenizer:
        return self._detokenizers.new()

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of the whole sequence, without its special tokens."""
        return self._tokenizer.decode(token_ids)

    async def decode_all(self, token_ids: Sequence[int]) -> str:
        """Text of the whole sequence, special tokens included."""
        return await self._tokenizer.decode_all(token_ids)

    def token_names(self, token_ids: Sequence[int]) -> list[str]:
        """The tokens as the vocabulary writes them; "" where it has a hole."""
        return [self._tokenizer.token(token_id) or "" for token_id in token_ids]

    def token_bytes(self, token_id: int) -> bytes:
        """What the token stands for on its own; of special tokens, their name."""
        return self._token_bytes[token_id]

    async def chat_prompt(self, messages: Sequence[Mapping[str, str]]) -> PromptIds:
        """Ids of a conversation. The template writes the special tokens, so the tokenizer adds none."""
        text = self.render(messages, add_generation_prompt=True)
        return _not_empty(await self.encode(text, add_special_tokens=False), "messages")

    def render(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool) -> str:
        """A conversation as the model reads it. Raises RequestError where it has no template."""
        if self._template is None:
            raise RequestError("this model has no chat template; use /v1/completions", "messages")
        return self._template.render(messages, add_generation_prompt=add_generation_prompt)

    async def encode(self, text: str, *, add_special_tokens: bool) -> PromptIds:
        return await self._tokenizer.encode(text, add_special_tokens=add_special_tokens)

    async def text_prompt(self, text: str) -> PromptIds:
        return _not_empty(await self.encode(text, add_special_tokens=True), "prompt")

    def ids_prompt(self, token_ids: Sequence[int]) -> PromptIds:
        self.check_vocabulary(token_ids, "prompt")
        return _not_empty(tuple(token_ids), "prompt")

    def check_vocabulary(self, token_ids: Collection[int], param: str) -> None:
        """Raises RequestError naming `param` when an id is not the model's."""
        size = self.card.vocab_size
        if token_ids and not 0 <= min(token_ids) <= max(token_ids) < size:
            wrong = next(i for i in token_ids if not 0 <= i < size)
            raise RequestError(f"token id {wrong} is outside the vocabulary (0 to {size - 1})", param)


def _not_empty(prompt_ids: PromptIds, param: str) -> PromptIds:
    if not prompt_ids:
        raise RequestError("the prompt has no tokens", param)
    return prompt_ids
