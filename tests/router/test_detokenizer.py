"""Pieces of text: together the whole, apart never half a character."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_tokenizers import byte_level, metaspace, sentence_piece

from serving.router.detokenizer import Detokenizer, DetokenizerFactory, byte_alphabet
from serving.router.tokenizer import Tokenizer

KINDS = [byte_level, sentence_piece, metaspace]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)

TOKENIZERS = {kind: Tokenizer(kind()) for kind in KINDS}
FACTORIES = {kind: DetokenizerFactory(tokenizer) for kind, tokenizer in TOKENIZERS.items()}

# Ids beyond the vocabulary too: models pad theirs.
ids = st.lists(st.integers(0, 440), max_size=60)


def in_pieces(detokenizer: Detokenizer, token_ids: Sequence[int], size: int) -> list[str]:
    pieces = [detokenizer.push(token_ids[i : i + size]) for i in range(0, len(token_ids), size)]
    return [*pieces, detokenizer.flush()]


@each_kind
@given(token_ids=ids, size=st.integers(1, 7))
def test_pieces_are_the_whole(kind: Callable[[], bytes], token_ids: list[int], size: int) -> None:
    pieces = in_pieces(FACTORIES[kind].new(), token_ids, size)
    assert "".join(pieces) == TOKENIZERS[kind].decode(token_ids)


@given(token_ids=st.lists(st.integers(1, 256), max_size=40), size=st.integers(1, 3))
def test_byte_tokens_that_are_no_utf8(token_ids: list[int], size: int) -> None:
    pieces = in_pieces(FACTORIES[sentence_piece].new(), token_ids, size)
    assert "".join(pieces) == TOKENIZERS[sentence_piece].decode(token_ids)


@each_kind
@given(text=st.text(st.characters(exclude_characters="\ufffd▁", exclude_categories=("Cs",)), max_size=30))
async def test_no_character_is_split(kind: Callable[[], bytes], text: str) -> None:
    token_ids = await TOKENIZERS[kind].encode(text, add_special_tokens=False)
    whole = TOKENIZERS[kind].decode(token_ids)
    so_far = ""
    for piece in in_pieces(FACTORIES[kind].new(), token_ids, 1):
        so_far += piece
        assert whole.startswith(so_far)
    assert so_far == whole


async def test_every_complete_character_is_out_at_once() -> None:
    tokenizer = TOKENIZERS[byte_level]
    token_ids = await tokenizer.encode("brown 🙃 fox: 東京 Größe 👩‍👩‍👧", add_special_tokens=False)
    detokenizer = FACTORIES[byte_level].new()
    so_far, so_far_bytes = "", b""
    for token_id in token_ids:
        so_far += detokenizer.push([token_id])
        so_far_bytes += bytes(byte_alphabet()[character] for character in tokenizer.token(token_id))
        assert so_far == so_far_bytes.decode(errors="ignore")  # the unfinished one is left out


def test_an_unfinished_character_ends_as_a_replacement() -> None:
    tokenizer = TOKENIZERS[byte_level]
    first_byte = next(i for i in range(440) if tokenizer.token(i) == "ð")  # 0xF0
    detokenizer = FACTORIES[byte_level].new()
    assert detokenizer.push([first_byte]) == ""
    assert detokenizer.flush() == "\ufffd" == tokenizer.decode([first_byte])


def test_special_tokens_leave_nothing_and_added_ones_their_text() -> None:
    tokenizer = TOKENIZERS[byte_level]
    names = {tokenizer.token(i): i for i in range(440)}
    detokenizer = FACTORIES[byte_level].new()
    assert detokenizer.push([names["<|im_end|>"], names["<tool call>"]]) == "<tool call>"


class Counting(Tokenizer):
    longest = 0

    def decode(self, token_ids: Sequence[int]) -> str:
        self.longest = max(self.longest, len(token_ids))
        return super().decode(token_ids)


async def test_the_window_stays_small() -> None:
    tokenizer = Counting(sentence_piece())
    token_ids = await tokenizer.encode("the an the. é 東 " * 200, add_special_tokens=False)
    pieces = in_pieces(DetokenizerFactory(tokenizer).new(), token_ids, 1)
    assert tokenizer.longest <= 8
    assert "".join(pieces) == tokenizer.decode(token_ids)
