"""Where two answers part, by token and by text."""

from __future__ import annotations

from collections.abc import Sequence

from tiny_tokenizers import byte_level

from benchmarks.answers import Answer
from benchmarks.compare import first_difference, same
from serving.router.tokenizer import Tokenizer

TOKENIZER = Tokenizer(byte_level())


def answer(token_ids: Sequence[int], *, over_http: bool = False) -> Answer:
    ids = tuple(token_ids)
    return Answer(TOKENIZER.decode(ids), None if over_http else ids, len(ids), 0.1, 0.2)


def encode(text: str) -> tuple[int, ...]:
    return TOKENIZER._encode(text, add_special_tokens=False)


def test_tokens_decide_where_both_sides_have_them() -> None:
    """Two ways to write the same text are two answers."""
    whole, letters = encode("the"), tuple(i for letter in "the" for i in encode(letter))
    assert len(whole) < len(letters)
    assert same(answer(whole), answer(whole))
    assert not same(answer(whole), answer(letters))
    assert same(answer(whole), answer(letters, over_http=True))


def test_the_first_other_token() -> None:
    assert first_difference(answer([5, 6, 7]), answer([5, 6, 8]), TOKENIZER.decode) == 2
    assert first_difference(answer([5, 6]), answer([5, 6, 8]), TOKENIZER.decode) == 2
    assert first_difference(answer([5, 6, 8, 9]), answer([5, 6, 8]), TOKENIZER.decode) == 3


def test_the_first_token_that_the_text_does_not_say() -> None:
    plain, other = encode("naïve café in 東京"), encode("naïve café in Rome")
    parted = next(i for i, pair in enumerate(zip(plain, other, strict=False)) if pair[0] != pair[1])
    found = first_difference(answer(other, over_http=True), answer(plain), TOKENIZER.decode)
    assert parted <= found <= parted + 2  # the bytes of one character say nothing until all are there


def test_a_text_that_ends_early_parts_at_its_end() -> None:
    plain = encode("one two three")
    assert first_difference(answer(plain[:4], over_http=True), answer(plain), TOKENIZER.decode) == 4
